package redisexporter

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mount(t *testing.T, secret map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for key, value := range secret {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheConnectionSecretNamesTheServers(t *testing.T) {
	dir := mount(t, map[string]string{
		"username": "exporter", "password": "secret", "ca.crt": "x",
		"nodes": "carts-0-0.carts-peers.shop.svc.cluster.local:6379,carts-0-1.carts-peers.shop.svc.cluster.local:6379",
	})
	c, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := connection{username: "exporter", password: "secret", ca: filepath.Join(dir, "ca.crt"), servers: []server{
		{"shop", "carts-0-0", "carts-0-0.carts-peers.shop.svc.cluster.local:6379"},
		{"shop", "carts-0-1", "carts-0-1.carts-peers.shop.svc.cluster.local:6379"},
	}}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(connection{}, server{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAServerThatDoesNotAnswerIsTold(t *testing.T) {
	answer := httptest.NewRecorder()
	Handler(mount(t, map[string]string{"nodes": "127.0.0.1:1", "password": "not-to-be-told"})).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if text := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(text, `redis_up{namespace="0",pod="127"} 0`) || strings.Contains(text, "not-to-be-told") {
		t.Errorf("status %d:\n%s", answer.Code, text)
	}
}

// The text of an error holds a port that is another one each time.
func TestNoSeriesTellsTheTextOfAnError(t *testing.T) {
	said := &strings.Builder{}
	answer := httptest.NewRecorder()
	handler(mount(t, map[string]string{"nodes": "127.0.0.1:1"}), said).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	text := answer.Body.String()
	if strings.Contains(text, "err=") || strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "redis_exporter_scrapes_total{") {
		t.Errorf("status %d:\n%s", answer.Code, text)
	}
	if !strings.Contains(said.String(), "the metrics of 127 cannot be read: ") || !strings.Contains(said.String(), "dial") {
		t.Errorf("the log says %q", said)
	}
}

func TestASecretWithoutServersIsRefused(t *testing.T) {
	for name, secret := range map[string]map[string]string{"empty": nil, "broken": {"nodes": "carts-0-0"}} {
		answer := httptest.NewRecorder()
		Handler(mount(t, secret)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		if answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "nodes") {
			t.Errorf("%s: status %d: %s", name, answer.Code, answer.Body)
		}
	}
}
