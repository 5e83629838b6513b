package backup

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/need"
)

// serviceAccount is a key of Google whose tokens come from a server of the test.
func serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	key, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b.example", "private_key": string(text), "token_uri": tokens})
	if err != nil {
		t.Fatal(err)
	}
	return secret(t, map[string]string{"credentials.json": string(key)})
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return server.URL
}

func giveToken(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"access_token": "x", "token_type": "Bearer", "expires_in": 3600}`)
}

// fake-gcs-server speaks as Google's does, as far as it is needed here, and looks at no credentials.
func TestABackupLivesInABucketOfGoogle(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), loopback.Address(t)
	if err := os.Mkdir(filepath.Join(dir, bucketOfTest), 0o700); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(address, ":")
	startProcess(t, need.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port, "-backend", "filesystem", "-filesystem-root", dir,
		"-public-host", address, "-external-url", "http://"+address)
	account := serviceAccount(t, serve(t, giveToken))
	s := openStore(t, "gs://"+bucketOfTest+"/some/prefix?endpoint=http://"+address, account)
	awaitStore(t, s)
	lifeOfABackup(t, s, Keys{})
	m := writeBackup(t, s, "large", Keys{}, noise(1, 2*partSize+1))
	if err := s.ReadPart(t.Context(), "large", m.Parts[0], Keys{}, func(io.Reader) error { return nil }); err != nil {
		t.Error(err)
	}
	died := errors.New("the source died")
	for _, size := range []int64{1000, 2 * partSize} {
		if _, err := s.WritePart(t.Context(), "dead", "p", Keys{}, func(w io.Writer) error { return errors.Join(noise(1, size)(w), died) }); !errors.Is(err, died) {
			t.Errorf("got %v", err)
		}
	}
	if objects, err := s.List(t.Context(), "dead/"); err != nil || len(objects) > 0 {
		t.Errorf("there is %v, %v", objects, err)
	}
	elsewhere := openStore(t, "gs://elsewhere?endpoint=http://"+address, account)
	if _, err := elsewhere.Get(t.Context(), "x", 1); err == nil || permanent(err) && !errors.Is(err, ErrNoBucket) && !errors.Is(err, ErrNotFound) {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

func awaitStore(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, err := s.List(ctx, "")
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// What Google and Microsoft answer when something is wrong, by the pages that describe their errors.
func TestErrorsOfCloudsAreClassified(t *testing.T) {
	t.Parallel()
	google := func(status int, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error": {"code": %d, "message": %q}}`, status, message)
		}
	}
	azure := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-ms-error-code", code)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>x</Message></Error>`, code)
		}
	}
	for name, c := range map[string]struct {
		scheme string
		answer http.HandlerFunc
		want   error
	}{
		"google, no token":            {"gs", google(http.StatusUnauthorized, "Invalid Credentials"), ErrCredentials},
		"google, no right":            {"gs", google(http.StatusForbidden, "a@b does not have storage.objects.list access"), ErrNotAllowed},
		"google, no bucket":           {"gs", google(http.StatusNotFound, "The specified bucket does not exist."), ErrNoBucket},
		"azure, wrong key":            {"azblob", azure(http.StatusForbidden, "AuthenticationFailed"), ErrCredentials},
		"azure, no right":             {"azblob", azure(http.StatusForbidden, "AuthorizationPermissionMismatch"), ErrNotAllowed},
		"azure, no container":         {"azblob", azure(http.StatusNotFound, "ContainerNotFound"), ErrNoBucket},
		"azure, what must not change": {"azblob", azure(http.StatusConflict, "BlobImmutableDueToPolicy"), ErrNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := serve(t, c.answer)
			credentials := map[string]string{"AZURE_STORAGE_ACCOUNT": "name123", "AZURE_STORAGE_KEY": "c2VjcmV0"}
			dir := secret(t, credentials)
			if c.scheme == "gs" {
				dir = serviceAccount(t, serve(t, giveToken))
			}
			s := openStore(t, c.scheme+"://backups/prefix?endpoint="+endpoint, dir)
			for call, err := range everyCall(t.Context(), s) {
				if !errors.Is(err, c.want) {
					t.Errorf("%s: got %v, want %v", call, err, c.want)
				}
			}
		})
	}
}

func TestAnAccountThatGoogleKnowsNoMoreIsTold(t *testing.T) {
	t.Parallel()
	tokens := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error": "invalid_grant", "error_description": "Invalid grant: account not found"}`)
	})
	s := openStore(t, "gs://backups/prefix?endpoint=http://127.0.0.1:1", serviceAccount(t, tokens))
	s.patience = 20 * time.Second
	if _, err := s.List(t.Context(), ""); !errors.Is(err, ErrCredentials) {
		t.Errorf("got %v", err)
	}
}
