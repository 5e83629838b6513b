package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdlog"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// askPeerTimeout bounds the question to one peer. One that does not answer in time is no information.
	askPeerTimeout = time.Second
	// gateRecheck is how often a waiting gate asks again.
	gateRecheck = 500 * time.Millisecond
	// gatePatience is how long the gate waits before it ends: its report reaches the operator only then, and the kubelet
	// gives the next attempt a fresh copy of the ConfigMap.
	gatePatience = 20 * time.Second
	// finalPatience is the same where only the operator can change the verdict.
	finalPatience = time.Second
	// maxPeerAnswer is far more than the list of seven members.
	maxPeerAnswer = 1 << 20
	// maxPeerMembers is far more members than a cluster has: seven, of the API nine.
	maxPeerMembers = 64
)

// etcdGate is the start gate of one etcd member: it gathers what etcd.DecideStart decides on, and carries the
// decision out.
type etcdGate struct {
	self, ip, version                  string
	configDir, runDir, dataDir, tlsDir string
	terminationLog                     string
	flowAddress                        string
	withoutAuthentication              bool
	patience                           time.Duration
	out                                io.Writer
}

// runGateEtcd writes the configuration of this member and returns when etcd may start.
func runGateEtcd(ctx context.Context, args []string) error {
	g := etcdGate{self: os.Getenv("POD_NAME"), ip: os.Getenv("POD_IP"), out: os.Stdout}
	fs := flag.NewFlagSet("gate etcd", flag.ContinueOnError)
	fs.StringVar(&g.version, "version", "", "version of etcd that the configuration is for")
	fs.StringVar(&g.configDir, "config-dir", config.ConfigDir, "directory that the ConfigMap of the cluster is mounted at")
	fs.StringVar(&g.runDir, "run-dir", config.RunDir, "directory that the configuration file is written to")
	fs.StringVar(&g.dataDir, "data-dir", config.DataDir, "data directory of etcd")
	fs.StringVar(&g.tlsDir, "peer-tls-dir", config.PeerTLSDir, "directory with ca.crt, tls.crt and tls.key for peers, if there is one")
	fs.StringVar(&g.terminationLog, "termination-log", "/dev/termination-log", "file that the reason for waiting is written to")
	fs.StringVar(&g.flowAddress, "progress-address", flowAddress, "address to tell at how far a restore is")
	fs.BoolVar(&g.withoutAuthentication, manifests.FlagWithoutAuthentication, false, "switch authentication off in restored data")
	fs.DurationVar(&g.patience, "patience", gatePatience, "time to wait before ending with an error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if g.self == "" {
		return errors.New("POD_NAME is not set")
	}
	return g.run(ctx)
}

func (g etcdGate) run(ctx context.Context) error {
	record, err := g.record()
	if err != nil {
		return err
	}
	peers, err := g.peerClient()
	if err != nil {
		return err
	}
	asked := time.Now()
	deadline := asked.Add(g.patience)
	last := ""
	for {
		d, err := g.decide(ctx, peers, record)
		if err != nil {
			return err
		}
		if d.Start && d.State == "new" && last != "" {
			// What made it wait may have meant that the cluster has an identity by now. The next attempt reads it.
			return errors.New("start over with a fresh copy of the record")
		}
		if d.Start {
			return g.release(ctx, d, record)
		}
		if d.Report.Message != last {
			g.say(d.Report)
			last = d.Report.Message
		}
		if time.Now().After(deadline) || (d.Report.Final() && time.Since(asked) >= finalPatience) {
			return g.giveUp(d.Report)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(gateRecheck):
		}
	}
}

func (g etcdGate) record() (model.Record, error) {
	data := map[string]string{}
	for _, key := range []string{model.KeyBootstrap, model.KeyClusterID, model.KeyMembers, model.KeyRecovery, model.KeyRestore} {
		raw, err := os.ReadFile(filepath.Join(g.configDir, key))                        //nolint:gosec // The directory is an argument of ours.
		if err != nil && (key != model.KeyRestore || !errors.Is(err, os.ErrNotExist)) { // Records of old have none.
			return model.Record{}, fmt.Errorf("read the record: %w", err)
		}
		data[key] = string(raw)
	}
	return model.ParseIdentity(data)
}

// decide looks at the disk and, when it is empty, asks the peers.
func (g etcdGate) decide(ctx context.Context, peers *http.Client, record model.Record) (gate.Decision, error) {
	in := gate.Input{Record: record}
	var others []model.Peer
	for _, p := range record.Members {
		if p.Name == g.self {
			in.Self = p
		} else {
			others = append(others, p)
		}
	}
	if in.Self.URL == "" {
		return gate.Decision{}, fmt.Errorf("the record does not name %s as a member", g.self)
	}
	var err error
	if in.Disk, err = inspectDisk(g.dataDir); err != nil {
		return gate.Decision{}, err
	}
	if in.Epoch, err = g.epoch(); err != nil {
		return gate.Decision{}, err
	}
	if in.Aside, err = g.aside(); err != nil {
		return gate.Decision{}, err
	}
	if in.Disk != gate.DiskReady {
		in.Answers = askPeers(ctx, peers, others)
	} else if in.Recovers() {
		end, err := etcdlog.End(g.dataDir)
		in.Log, in.LogError = &end, err
	}
	d := gate.Decide(in)
	if !d.SetAside {
		return d, nil
	}
	if err := g.setAsideFor(record.Recovery.Epoch()); err != nil {
		return d, err
	}
	in.Disk, in.Answers = gate.DiskEmpty, askPeers(ctx, peers, others)
	return gate.Decide(in), nil
}

// inspectDisk tells a data directory with a log from an empty one. etcd writes its first log under another name and
// renames it, so there is a log or there is none.
func inspectDisk(dir string) (gate.Disk, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return gate.DiskEmpty, fmt.Errorf("look for a log in %s: %w", dir, err)
	}
	if len(logs) > 0 {
		return gate.DiskReady, nil
	}
	_, err = os.Stat(filepath.Join(dir, "member"))
	if errors.Is(err, os.ErrNotExist) {
		return gate.DiskEmpty, nil
	}
	if err != nil {
		return gate.DiskEmpty, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return gate.DiskPartial, nil
}

// release makes the disk ready and writes the configuration file.
func (g etcdGate) release(ctx context.Context, d gate.Decision, record model.Record) error {
	if d.Discard {
		if err := setAside(g.dataDir); err != nil {
			return err
		}
	}
	if d.Alone {
		err := g.goOnAlone(d.Epoch)
		if held := (gateHolds{}); errors.As(err, &held) {
			return g.giveUp(held.GateReport)
		}
		if err != nil {
			return err
		}
	}
	if d.Epoch != "" {
		if err := g.begin(d.Epoch); err != nil {
			return err
		}
	}
	if d.Restore { // Data from here on is of this epoch.
		if err := g.restore(ctx, record); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(g.dataDir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	v, err := model.ParseVersion(g.version)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(g.configDir, config.MemberKey(g.self, v)))
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	text := gate.FinishConfig(string(raw), d, strings.Contains(g.ip, ":"))
	if err := os.WriteFile(filepath.Join(g.runDir, "etcd.yaml"), []byte(text), 0o600); err != nil { //nolint:gosec // So is this one.
		return fmt.Errorf("write the configuration: %w", err)
	}
	g.letGo(model.GateReport{Reason: model.GateStart, Message: g.self + " may start, cluster state " + d.State})
	return nil
}

// letGo tells what version the members have agreed on by what is on the disk: as long as etcd cannot be started in this pod, that stays so.
// Nothing depends on it where etcd can be: what cannot be read says nothing, and etcd itself says what is wrong with it.
func (g etcdGate) letGo(r model.GateReport) {
	r.Agreed, _ = etcdrestore.Agreed(filepath.Join(g.dataDir, "member", "snap", "db"))
	g.say(r)
	_ = os.WriteFile(g.terminationLog, []byte(r.Encode()), 0o600)
}

// setAside moves away what an interrupted first start left. It never held a vote or a write, but it is not ours to
// delete.
func setAside(dir string) error {
	to := filepath.Join(dir, "interrupted-"+strconv.FormatInt(time.Now().Unix(), 10))
	if err := os.Rename(filepath.Join(dir, "member"), to); err != nil {
		return fmt.Errorf("set the leftovers of an interrupted start aside: %w", err)
	}
	return nil
}

func (g etcdGate) giveUp(r model.GateReport) error {
	if err := os.WriteFile(g.terminationLog, []byte(r.Encode()), 0o600); err != nil {
		return errors.Join(errors.New(r.Message), fmt.Errorf("write the termination message: %w", err))
	}
	return errors.New(r.Message)
}

func (g etcdGate) say(r model.GateReport) { _, _ = fmt.Fprintln(g.out, r.Encode()) }

// peerClient is an HTTP client with the member's own certificate, or a plain one without TLS.
func (g etcdGate) peerClient() (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	cert, err := tls.LoadX509KeyPair(filepath.Join(g.tlsDir, "tls.crt"), filepath.Join(g.tlsDir, "tls.key"))
	if errors.Is(err, os.ErrNotExist) {
		return &http.Client{Transport: transport}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the peer certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(g.tlsDir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}
	return &http.Client{Transport: transport}, nil
}

// askPeers asks all peers at once for their member list. Who does not answer is left out.
func askPeers(ctx context.Context, c *http.Client, peers []model.Peer) []gate.PeerAnswer {
	answers := make([]*gate.PeerAnswer, len(peers))
	_ = goroutine.Each(len(peers), func(i int) error {
		answers[i] = askPeer(ctx, c, peers[i])
		return nil
	})
	var out []gate.PeerAnswer
	for _, a := range answers {
		if a != nil {
			out = append(out, *a)
		}
	}
	return out
}

func askPeer(ctx context.Context, c *http.Client, peer model.Peer) *gate.PeerAnswer {
	ctx, cancel := context.WithTimeout(ctx, askPeerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, peer.URL+"/members", nil)
	if err != nil {
		return nil
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	id, err := strconv.ParseUint(resp.Header.Get("X-Etcd-Cluster-ID"), 16, 64)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	members, err := readMembers(resp.Body)
	if err != nil {
		return nil
	}
	return &gate.PeerAnswer{From: peer.Name, ClusterID: id, Members: members}
}

// readMembers reads the answer of a peer.
func readMembers(answer io.Reader) (members []gate.PeerMember, err error) {
	if err := json.NewDecoder(io.LimitReader(answer, maxPeerAnswer)).Decode(&members); err != nil {
		return nil, err
	}
	if len(members) > maxPeerMembers {
		return nil, fmt.Errorf("it has %d members", len(members))
	}
	return members, nil
}
