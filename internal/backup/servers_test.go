package backup

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/need"
)

const (
	rootID, rootKey = "root-of-the-test", "secret-of-the-root"
	bucketOfTest    = "backups"
)

// s3Server is versitygw on a directory, with one bucket.
type s3Server struct {
	binary, endpoint string
	// data is the directory that holds a directory for each bucket.
	data string
	// ca is the authority that signed its certificate, nil: it has none.
	ca []byte
}

// startS3 starts one. before is a command that the server is started by, with its own after it; data is what {} in it stands for.
func startS3(t *testing.T, withTLS bool, before ...string) *s3Server {
	t.Helper()
	dir := t.TempDir()
	s := &s3Server{binary: need.Tool(t, "versitygw"), data: filepath.Join(dir, "data")}
	address := loopback.Address(t)
	s.endpoint = "http://" + address
	args := []string{"--port", address, "--access", rootID, "--secret", rootKey, "--iam-dir", filepath.Join(dir, "iam"), "--quiet", "--health", "/healthz"}
	for _, name := range []string{"data", "iam", "attributes"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if withTLS {
		s.endpoint = "https://" + address
		cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		s.ca = writeCertificate(t, cert, key)
		args = append(args, "--cert", cert, "--key", key)
	}
	// Attributes beside the files, because not every file system that tests run on has extended ones.
	args = append(args, "posix", "--sidecar", filepath.Join(dir, "attributes"), s.data)
	command := append(slices.Clone(before), append([]string{s.binary}, args...)...)
	for i := range command[:len(before)] {
		command[i] = strings.ReplaceAll(command[i], "{}", s.data)
	}
	startProcess(t, command[0], command[1:]...)
	s.wait(t)
	s.run(t, func(ctx context.Context, c *s3.Client) error {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucketOfTest)})
		return err
	})
	return s
}

func startProcess(t *testing.T, binary string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(binary), output.String())
		}
	})
}

func (s *s3Server) transport() *http.Transport {
	transport := &http.Transport{}
	if s.ca != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.ca)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return transport
}

func (s *s3Server) wait(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: s.transport(), Timeout: time.Second}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(30 * time.Second)
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.endpoint+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("it answers %s", answer.Status)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the S3 server does not start: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// run does something as root, with the client of AWS itself.
func (s *s3Server) run(t *testing.T, do func(context.Context, *s3.Client) error) {
	t.Helper()
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(s.endpoint), UsePathStyle: true, Region: anyRegion, HTTPClient: &http.Client{Transport: s.transport()},
		Credentials: credentials.NewStaticCredentialsProvider(rootID, rootKey, ""),
	})
	if err := do(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

// addUser makes an account without rights.
func (s *s3Server) addUser(t *testing.T, id, key string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), s.binary, "admin", "--access", rootID, "--secret", rootKey, "--endpoint-url", s.endpoint,
		"create-user", "--access", id, "--secret", key, "--role", "user").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// setPolicy allows a user some actions on the bucket.
func (s *s3Server) setPolicy(t *testing.T, user string, actions ...string) {
	t.Helper()
	policy := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": [%q], "Action": ["%s"],
		"Resource": ["arn:aws:s3:::%s", "arn:aws:s3:::%[3]s/*"]}]}`, user, strings.Join(actions, `", "`), bucketOfTest)
	s.run(t, func(ctx context.Context, c *s3.Client) error {
		_, err := c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: aws.String(bucketOfTest), Policy: aws.String(policy)})
		return err
	})
}

// secret is a directory like that of a mounted Secret.
func secret(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for key, value := range content {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// open opens a prefix of a bucket with an account.
func (s *s3Server) open(t *testing.T, bucket, id, key string) *Store {
	t.Helper()
	content := map[string]string{"AWS_ACCESS_KEY_ID": id + "\n", "AWS_SECRET_ACCESS_KEY": key + "\n"}
	if s.ca != nil {
		content["ca.crt"] = string(s.ca)
	}
	return openStore(t, "s3://"+bucket+"/some/prefix?path-style=true&endpoint="+s.endpoint, secret(t, content))
}

func openStore(t *testing.T, url, credentials string) *Store {
	t.Helper()
	store, err := Open(t.Context(), Location{URL: url, Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// writeCertificate makes a certificate for loopback, and returns the authority that signed it.
func writeCertificate(t *testing.T, cert, key string) []byte {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca, err := x509.CreateCertificate(rand.Reader, parent, parent, authority.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	child := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	server, err := x509.CreateCertificate(rand.Reader, child, parent, leaf.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(leaf)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: server}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
}
