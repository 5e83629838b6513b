package rediscluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/goroutine"
)

// parallelReads bounds how many servers of one cluster are read at a time: what each answers is held
// until it is parsed, which is 160 KiB in the largest cluster.
const parallelReads = 64

// silentTimeout bounds how long a server is asked that did not answer a moment ago.
const silentTimeout = 500 * time.Millisecond

// silence remembers which servers did not answer. While the primary changes, clients stand still until several steps have been taken
// one after the other: the reconciles between them do not wait for these servers as long as others.
type silence struct {
	// pods are the UIDs of those that did not answer last.
	pods map[string]bool
	// brief says that the last step was part of such a change.
	brief bool
}

// expected returns the servers that need not be waited for.
func (s *silence) expected() map[string]bool {
	if !s.brief {
		return nil
	}
	s.brief = false
	return s.pods
}

// watch notes which servers did not answer.
func (s *silence) watch(pods []model.Pod) {
	s.pods = map[string]bool{}
	for i := range pods {
		if pods[i].TimedOut {
			s.pods[pods[i].UID] = true
		}
	}
}

// note notes which step was taken.
func (s *silence) note(step cluster.Step) {
	switch step := step.(type) {
	case steps.Appoint, steps.Promote:
		s.brief = true
	case steps.End:
		s.brief = s.brief || step.Former
	}
}

// readServers asks servers in parallel.
func (k *Reconciler) readServers(ctx context.Context, connect connectFunc, s *model.State) {
	k.readServersExcept(ctx, connect, s, nil)
}

// readServersExcept asks servers in parallel, and waits for those that are silent for silentTimeout only.
func (k *Reconciler) readServersExcept(ctx context.Context, connect connectFunc, s *model.State, silent map[string]bool) {
	topology, places := model.NewTopology(), make(chan struct{}, parallelReads)
	errs := goroutine.Each(len(s.Pods), func(i int) error {
		p := &s.Pods[i]
		if p.Addr.IP == "" || p.Stuck != "" {
			return nil
		}
		places <- struct{}{}
		defer func() { <-places }()
		options := connect(acl.UserOperator, endpointOf(p))
		options.Topology = topology
		if silent[p.UID] {
			ctx, cancel := context.WithTimeout(ctx, silentTimeout)
			defer cancel()
			return k.readServer(ctx, options, s.Spec, p)
		}
		return k.readServer(ctx, options, s.Spec, p)
	})
	for i, err := range errs {
		if err != nil {
			p := &s.Pods[i]
			p.Error, p.Hangs = briefly(err), errors.Is(err, steps.ErrHangs)
		}
	}
}

// readServer fills in what a server reports of itself. Its error is a fact about that server, not an
// error of the observation.
func (k *Reconciler) readServer(ctx context.Context, options redisclient.Options, of model.Spec, p *model.Pod) error {
	c := k.Connect(options)
	defer func() { _ = c.Close() }() // Nothing was written that closing could lose.
	asked := k.Now()
	node, err := c.Read(ctx)
	answered := k.Now()
	p.TimedOut = redisclient.TimedOut(err)
	if err == nil || p.TimedOut {
		p.Took = answered.Sub(asked)
	}
	if err != nil {
		return err
	}
	if !node.RunsIn(p.Name, of.Name, of.Namespace) {
		return errors.New("another server answers at its address")
	}
	p.Node, p.Clock = node, anomaly.ClockOf(p.Name, node.Clock, time.Microsecond, asked, answered)
	return nil
}

// briefError reads as briefly says, and is still the error that it was.
type briefError struct{ error }

func (e briefError) Error() string { return briefly(e.error) }

func (e briefError) Unwrap() error { return e.error }

// briefly is an error without what differs from one attempt to the next, such as local ports: it goes into the status.
func briefly(err error) string {
	var op *net.OpError
	if text := certificateProblem(err); text != "" {
		return text
	}
	switch {
	case errors.Is(err, steps.ErrHangs):
		return "the server takes connections and does not answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer"
	case errors.Is(err, redisclient.ErrPassword):
		return "the server refuses the operator's password"
	case errors.As(err, &op):
		return "the server cannot be reached: " + op.Err.Error()
	}
	return err.Error()
}

// certificateProblem says what is wrong with a server's certificate, empty when nothing is. The errors of crypto/x509 hold
// the time of day.
func certificateProblem(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		unproved  *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not valid yet"
	case errors.As(err, &host):
		return "the server's certificate is not for its name"
	case errors.As(err, &authority):
		return "the server's certificate is not of the cluster's certificate authority"
	case errors.As(err, &invalid), errors.As(err, &unproved):
		return "the server's certificate cannot be verified"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	}
	return ""
}
