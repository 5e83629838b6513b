package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// googleScope lets a token read and write objects, and nothing else of Google.
const googleScope = "https://www.googleapis.com/auth/devstorage.read_write"

func openGoogle(ctx context.Context, p place, secret string, transport *http.Transport) (*blob.Bucket, error) {
	source, err := googleCredentials(ctx, secret, transport)
	if err != nil {
		return nil, err
	}
	client, err := gcp.NewHTTPClient(transport, source)
	if err != nil {
		return nil, err
	}
	options := &gcsblob.Options{}
	if endpoint := p.parameters["endpoint"]; endpoint != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(endpoint+"/storage/v1/"))
	}
	bucket, err := gcsblob.OpenBucket(ctx, client, p.bucket, options)
	if err != nil {
		return nil, err
	}
	var native *storage.Client
	if bucket.As(&native) {
		// By default writes without a precondition are tried once. Ours are the same at every attempt.
		native.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(attempts))
	}
	return bucket, nil
}

// googleCredentials reads credentials.json, or takes what the environment has.
func googleCredentials(ctx context.Context, secret string, transport *http.Transport) (oauth2.TokenSource, error) {
	// Tokens are fetched as long as the store is open, through the same transport.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Transport: transport})
	text, err := secretValue(secret, "credentials.json")
	if err != nil {
		return nil, err
	}
	if text == "" {
		return &ambient{ctx: ctx}, nil
	}
	var kind struct {
		Type google.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal([]byte(text), &kind); err != nil {
		return nil, fmt.Errorf("%w: the key \"credentials.json\" of the Secret is no JSON", ErrCredentials)
	}
	if kind.Type != google.ServiceAccount && kind.Type != google.ExternalAccount {
		return nil, fmt.Errorf("%w: credentials.json has the type %q: use the key of a service account or a configuration of workload identity federation", ErrCredentials, kind.Type)
	}
	c, err := google.CredentialsFromJSONWithType(ctx, []byte(text), kind.Type, googleScope)
	if err != nil {
		return nil, fmt.Errorf("%w: read credentials.json of the Secret: %w", ErrCredentials, err)
	}
	return c.TokenSource, nil
}

// ambient finds the credentials of the environment when the first token is needed: to find them uses the network.
type ambient struct {
	ctx    context.Context // A TokenSource is asked without one.
	mu     sync.Mutex
	source oauth2.TokenSource
}

// Token implements oauth2.TokenSource.
func (a *ambient) Token() (*oauth2.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.source == nil {
		c, err := google.FindDefaultCredentials(a.ctx, googleScope)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		a.source = oauth2.ReuseTokenSource(nil, c.TokenSource)
	}
	token, err := a.source.Token()
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return token, err
}
