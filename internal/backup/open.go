package backup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"gocloud.dev/blob"
)

const (
	// partSize is what an upload sends at a time, and uploadsAtOnce how many of these: memory for four of them is what an upload takes. S3 takes
	// 10000 pieces, so the largest part of a backup has 97 GiB as it is stored.
	partSize, uploadsAtOnce = 10 << 20, 2
	// attempts of one request, with exponential backoff in between: about a minute in all.
	attempts = 7
	// patience for one small request with all its attempts, and for a stream to move at all. A piece of 10 MiB may take a while.
	patience, stall = 2 * time.Minute, 10 * time.Minute
)

// Open prepares a store. It checks what can be checked without the network, which it never uses by itself: whether there is such a bucket,
// and whether the credentials are accepted, is seen by the first use.
func Open(ctx context.Context, l Location) (*Store, error) {
	p, err := parseURL(l.URL)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(l.Credentials)
	if err != nil {
		return nil, err
	}
	var bucket *blob.Bucket
	switch p.scheme {
	case "s3":
		bucket, err = openS3(ctx, p, l.Credentials, transport)
	case "gs":
		bucket, err = openGoogle(ctx, p, l.Credentials, transport)
	case "azblob":
		bucket, err = openAzure(ctx, p, l.Credentials, transport)
	default:
		bucket = blob.NewBucket(&directory{path: p.dir})
	}
	if err != nil {
		return nil, fmt.Errorf("open %s://%s%s: %w", p.scheme, p.bucket, p.dir, err)
	}
	tune := tuneS3(bucket, p)
	if p.prefix != "" {
		bucket = blob.PrefixedBucket(bucket, p.prefix+"/")
	}
	s := newStore(bucket)
	s.tune, s.creates, s.vague = tune, p.scheme == "file", p.scheme == "gs"
	return s, nil
}

func newStore(bucket *blob.Bucket) *Store {
	return &Store{bucket: bucket, patience: patience, stall: stall}
}

// newTransport trusts ca.crt of the Secret beside what the system trusts.
func newTransport(credentials string) (*http.Transport, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the default transport of HTTP was replaced")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if credentials == "" {
		return transport, nil
	}
	ca, err := readSecret(credentials, "ca.crt")
	if err != nil || ca == nil {
		return transport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // An image without certificates: those of the Secret are all there are.
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("the key \"ca.crt\" of the Secret holds no certificate in PEM")
	}
	transport.TLSClientConfig.RootCAs = roots
	return transport, nil
}

// secretValue is a key of the Secret as text, without the line end that editors leave. Missing: empty.
func secretValue(dir, key string) (string, error) {
	if dir == "" {
		return "", nil
	}
	content, err := readSecret(dir, key)
	return trimLineEnd(content), err
}

func trimLineEnd(content []byte) string {
	for len(content) > 0 && (content[len(content)-1] == '\n' || content[len(content)-1] == '\r') {
		content = content[:len(content)-1]
	}
	return string(content)
}
