package etcdfake

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Client is the operator's client of one process.
type Client struct {
	Network *Network
	Process *Process
	// Root says that its certificate makes it root; otherwise it uses the password.
	Root     bool
	Password string
	// Former password, used where Password does not work.
	Former string
	// Signs says that it can sign a token, with which a learner lets it in.
	Signs bool
	// TLS says that it connects so.
	TLS bool
	// Crash is asked after each change that EnableAuth makes; true ends the call there.
	Crash func() bool
}

var _ model.Client = (*Client)(nil)

func (c *Client) reachable() bool {
	return slices.Contains(c.Network.running, c.Process) && !c.Process.Cut && !c.Process.Deaf && !c.Process.Busy &&
		c.Process.takes(c.TLS)
}

// answers is what comes of any call but those for the status, the version and the metrics, which a learner answers too.
func (c *Client) answers() error {
	switch {
	case !c.reachable():
		return ErrNoAnswer
	case c.Network.learner(c.Process):
		return ErrLearner
	}
	return nil
}

// isRoot reports whether the client may do what only root may.
func (c *Client) isRoot(a authState) bool {
	return !a.on || c.Root || a.password == c.Password || (c.Former != "" && a.password == c.Former)
}

// Status answers from the process itself.
func (c *Client) Status(context.Context) (model.Status, error) {
	if !c.reachable() {
		return model.Status{}, ErrNoAnswer
	}
	p := c.Process
	switch byPassword := !c.Root && c.Password != ""; {
	case byPassword && c.Network.learner(p):
		if !c.Signs {
			return model.Status{}, ErrLearner // It lets nobody log in.
		}
	case !c.isRoot(p.auth()):
		return model.Status{}, model.ErrPassword
	}
	v := model.Status{
		MemberID: p.Disk.MemberID, ClusterID: p.Disk.ClusterID, Version: p.version,
		DBSize: p.Disk.Size() * c.Network.Unit, DBInUse: p.Disk.InUse() * c.Network.Unit,
		Revision: p.Disk.usage().revision, Applied: uint64(len(p.Disk.log)), Alarms: p.Alarms(),
	}
	agreed, downgrade := p.Disk.agreed()
	if parse(p.version).Minor >= 6 {
		v.Storage = agreed
		if downgrade.Minor != 0 {
			v.Downgrade = downgrade.String()
		}
	}
	if lead := c.Network.leaders[p.Disk.ClusterID]; lead != nil && slices.Contains(c.Network.up(p.Disk.ClusterID), p) {
		v.Leader, v.Learner = lead.Disk.MemberID, !lead.Disk.voter(p.Disk.MemberID)
	}
	return v, nil
}

// Vitals tells of a disk that has been used little.
func (c *Client) Vitals(context.Context) (model.MemberMetrics, error) {
	if !c.reachable() {
		return model.MemberMetrics{}, ErrNoAnswer
	}
	quick := anomaly.Histogram{Bounds: []float64{0.001}, Counts: []uint64{1, 1}}
	return model.MemberMetrics{Fsync: quick, Commit: quick}, nil
}

// Members answers through the quorum.
func (c *Client) Members(context.Context) ([]model.Member, error) {
	if err := c.answers(); err != nil {
		return nil, err
	}
	if c.Network.leaders[c.Process.Disk.ClusterID] == nil {
		return nil, ErrNoQuorum
	}
	var out []model.Member
	lead := c.Network.leaders[c.Process.Disk.ClusterID]
	for _, m := range lead.Disk.members() {
		out = append(out, model.Member{
			ID: m.id, Name: m.name, PeerURL: m.url, Learner: m.learner, Published: lead.published(m.id),
		})
	}
	return out, nil
}

// Auth answers through the quorum.
func (c *Client) Auth(ctx context.Context, password string) (model.Auth, error) {
	if _, err := c.Members(ctx); err != nil {
		return model.Auth{}, err
	}
	if !utf8.ValidString(password) {
		return model.Auth{}, ErrText
	}
	a := c.Process.auth()
	works := a.on && a.password == password
	return model.Auth{Enabled: a.on, PasswordWorks: works, Root: a.on && !works && c.isRoot(a)}, nil
}

// EnableAuth makes three changes, and may be interrupted between any two.
func (c *Client) EnableAuth(_ context.Context, password string) error {
	if err := c.answers(); err != nil {
		return err
	}
	if !utf8.ValidString(password) {
		return ErrText
	}
	for _, e := range []entry{{kind: entryUser, value: password}, {kind: entryAuthOn}} {
		if !c.isRoot(c.Process.auth()) {
			return ErrDenied
		}
		if err := c.Network.propose(c.Process, e); err != nil {
			return err
		}
		if c.Crash != nil && c.Crash() {
			return context.Canceled
		}
	}
	return nil
}

// SetRootPassword needs the certificate or the password of root.
func (c *Client) SetRootPassword(_ context.Context, password string) error {
	if err := c.answers(); err != nil {
		return err
	}
	if !utf8.ValidString(password) {
		return ErrText
	}
	if !c.isRoot(c.Process.auth()) {
		return ErrDenied
	}
	return c.Network.propose(c.Process, entry{kind: entryPassword, value: password})
}

// MoveLeader hands over to a connected member.
func (c *Client) MoveLeader(_ context.Context, to uint64) error {
	id := c.Process.Disk.ClusterID
	if !c.reachable() || c.Network.leaders[id] != c.Process {
		return ErrNoQuorum
	}
	for _, p := range c.Network.up(id) {
		if p.Disk.MemberID == to && c.Process.Disk.voter(to) {
			c.Network.leaders[id] = p
			return nil
		}
	}
	return ErrNoAnswer
}

// AddLearner wants every voter to be connected, and no other learner.
func (c *Client) AddLearner(_ context.Context, peerURL string) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	for _, m := range lead.Disk.members() {
		switch {
		case Host(m.url) == Host(peerURL):
			return nil
		case m.learner || !c.Network.connected(lead.Disk.ClusterID, m.id):
			return model.ErrNotNow
		}
	}
	id := hash(peerURL, fmt.Sprint(len(lead.Disk.log)))
	return c.Network.propose(lead, entry{kind: entryAdd, value: peerURL, id: id})
}

// Promote wants the learner to have the whole log.
func (c *Client) Promote(_ context.Context, id uint64) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	if lead.Disk.voter(id) {
		return nil
	}
	for _, p := range c.Network.up(lead.Disk.ClusterID) {
		if p.Disk.MemberID == id && p.Behind == 0 {
			return c.Network.propose(lead, entry{kind: entryPromote, id: id})
		}
	}
	return model.ErrNotInSync
}

// RemoveMember wants those that remain to be a quorum.
func (c *Client) RemoveMember(_ context.Context, id uint64) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	members := lead.Disk.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	voters, connected := 0, 0
	for _, m := range members {
		if m.learner || m.id == id {
			continue
		}
		voters++
		if c.Network.connected(lead.Disk.ClusterID, m.id) {
			connected++
		}
	}
	if !members[i].learner && connected < model.Quorum(voters) {
		return model.ErrNotNow
	}
	return c.Network.propose(lead, entry{kind: entryRemove, id: id})
}

// UpdatePeer changes the URL of a member, and gives a learner a vote (etcd issue 21694).
func (c *Client) UpdatePeer(_ context.Context, id uint64, peerURL string) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	for _, m := range lead.Disk.members() {
		if m.url == peerURL && m.id != id {
			return ErrTaken
		}
	}
	if !lead.Disk.listed(id) {
		return ErrNotListed
	}
	return c.Network.propose(lead, entry{kind: entryUpdate, value: peerURL, id: id})
}

func (c *Client) lead() (*Process, error) {
	if err := c.answers(); err != nil {
		return nil, err
	}
	lead := c.Network.leaders[c.Process.Disk.ClusterID]
	if lead == nil || c.Process.Cut {
		return nil, ErrNoQuorum
	}
	return lead, nil
}

// ClusterVersion is what the log says.
func (c *Client) ClusterVersion(context.Context) (model.Version, error) {
	if !c.reachable() {
		return model.Version{}, ErrNoAnswer
	}
	v, _ := c.Process.Disk.agreed()
	return v, nil
}

// Downgrade goes back by one minor version.
func (c *Client) Downgrade(_ context.Context, to model.Version) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	agreed, under := lead.Disk.agreed()
	if under.Minor != 0 {
		return nil
	}
	if to.Minor != agreed.Minor-1 {
		return ErrVersion
	}
	return c.Network.propose(lead, entry{kind: entryDowngrade, value: model.Version{Major: 3, Minor: to.Minor}.String()})
}

// CancelDowngrade forgets about it.
func (c *Client) CancelDowngrade(context.Context) error {
	lead, err := c.lead()
	if err != nil {
		return err
	}
	if _, under := lead.Disk.agreed(); under.Minor == 0 {
		return nil
	}
	return c.Network.propose(lead, entry{kind: entryDowngrade})
}

// Close does nothing.
func (c *Client) Close() error { return nil }
