package etcdclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// maxVersionAnswer is far more than three version numbers.
const maxVersionAnswer = 4096

// ClusterVersion asks for /version, because the gRPC API does not tell it.
func (c *Client) ClusterVersion(ctx context.Context) (model.Version, error) {
	var v model.Version
	err := c.get(ctx, "/version", func(resp *http.Response) (err error) {
		var answer struct {
			Cluster string `json:"etcdcluster"`
		}
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersionAnswer)).Decode(&answer); err != nil {
			return fmt.Errorf("answer %s: %w", resp.Status, err)
		}
		v, err = model.ParseVersion(answer.Cluster)
		return err
	})
	if err != nil {
		return model.Version{}, fmt.Errorf("version of the cluster of %s: %w", c.cfg.Host, err)
	}
	return v, nil
}

// Vitals asks for /metrics, which the client port serves to everybody with a certificate, and takes the time from the header of the answer.
func (c *Client) Vitals(ctx context.Context) (model.MemberMetrics, error) {
	var v model.MemberMetrics
	began := time.Now()
	err := c.get(ctx, "/metrics", func(resp *http.Response) (err error) {
		told, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			return fmt.Errorf("time of the answer: %w", err)
		}
		if v, err = model.ParseMetrics(resp.Body); err != nil {
			return fmt.Errorf("answer %s: %w", resp.Status, err)
		}
		v.Time = told
		return nil
	})
	c.cfg.called("metrics", began, err)
	if err != nil {
		return model.MemberMetrics{}, fmt.Errorf("metrics of %s: %w", c.cfg.Host, err)
	}
	return v, nil
}

// get asks the member's HTTP server, on a connection of its own: it is seldom asked.
func (c *Client) get(ctx context.Context, path string, read func(*http.Response) error) error {
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, // To compress costs the member more than to send.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.cfg.Dial(ctx) },
	}
	scheme := "http"
	if c.cfg.TLS != nil {
		scheme, transport.TLSClientConfig = "https", c.cfg.TLS.Clone()
		transport.TLSClientConfig.ServerName = c.cfg.Host
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, model.ClientURL(scheme, c.cfg.Host)+path, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return read(resp)
}

// Downgrade tells the members to go back.
func (c *Client) Downgrade(ctx context.Context, to model.Version) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		for _, action := range []clientv3.DowngradeAction{clientv3.DowngradeValidate, clientv3.DowngradeEnable} {
			_, err := conn.Downgrade(ctx, action, fmt.Sprintf("%d.%d.0", to.Major, to.Minor))
			if errors.Is(err, rpctypes.ErrDowngradeInProcess) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("downgrade to %s: %w", to, err)
			}
		}
		return nil
	})
}

// CancelDowngrade ends a downgrade.
func (c *Client) CancelDowngrade(ctx context.Context) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.Downgrade(ctx, clientv3.DowngradeCancel, "")
		if err != nil && !errors.Is(err, rpctypes.ErrNoInflightDowngrade) {
			return fmt.Errorf("cancel the downgrade: %w", err)
		}
		return nil
	})
}
