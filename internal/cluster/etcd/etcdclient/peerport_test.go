package etcdclient_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
)

// The peer port asks for no password: a certificate that opens it reads and writes the members' log.
func TestThePeerPortRejectsCertificatesOfClients(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSProvided} {
			t.Run(version+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				c := newTestCluster(t, version, binary, 3, mode)
				c.start(asNew, c.members...)
				c.well()
				for _, m := range c.members {
					if err := c.askPeer(m, "peer"); err != nil {
						t.Errorf("%s rejects its peers: %v", m.Name, err)
					}
					for _, who := range []string{"client", "operator"} {
						if err := c.askPeer(m, who); err == nil {
							t.Errorf("the peer port of %s takes the certificate of %s", m.Name, who)
						}
					}
				}
			})
		}
	}
}

// askPeer asks the peer port of a member for the members with the certificate of somebody.
func (c *testCluster) askPeer(m *testMember, who string) error {
	c.t.Helper()
	cfg := c.tlsOf(who)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/members", m.peer), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the peer port: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}
