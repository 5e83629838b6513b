package acl

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Users of every server besides "default", which is the clients'.
const (
	UserDefault = "default"
	// UserOperator is who the operator connects as.
	UserOperator = "quorate"
	// UserReplication is who replicas connect to their primary as.
	UserReplication = "replication"
	// UserMigration is who moves the keys of slots from one server to another: the operator on the one that gives them,
	// and that one on the other (MIGRATE ... AUTH2, or CLUSTER MIGRATESLOTS).
	UserMigration = "migration"
)

// Keys of the passwords in the auth Secret.
const (
	PasswordDefault     = "password"
	PasswordOperator    = "operator"
	PasswordReplication = "replication"
	PasswordMigration   = "migration"
)

// PasswordKeys are all of them.
var PasswordKeys = []string{PasswordDefault, PasswordOperator, PasswordReplication, PasswordMigration}

// operatorCommands are all that the operator's user may do: no key, no channel, nothing that reads or writes data.
var operatorCommands = []string{
	"hello", "ping", "info", "role", "client|setname",
	"cluster|myid", "cluster|nodes", "cluster|info",
	"cluster|set-config-epoch", "cluster|meet", "cluster|addslotsrange", "cluster|replicate", "cluster|forget",
	"cluster|failover", "replicaof", "failover",
	// For a hand-over that is undecided for long.
	"client|pause", "client|unpause", "cluster|bumpepoch",
	// To keep users in line, and to switch the replication user on, see gate.Decision.Admit. A user
	// that may do that may do anything to users, which gives the operator nothing that it does not
	// have: it made all passwords.
	"acl|getuser", "acl|setuser", "acl|deluser", "acl|list",
	// What was set is to outlast the process, see steps.Client.SetUsers.
	"acl|save", "multi", "exec",
	// To weigh slots.
	"cluster|countkeysinslot",
	// For the settings that take effect without a restart, and to replace the password that replicas connect with. Rules cannot
	// limit CONFIG to some parameters, so that the operator may set any of them.
	"config|get", "config|set",
}

// replicationCommands are what a replica sends to its primary, and what a pod asks its own server,
// see lastWords in package manifests.
var replicationCommands = []string{"ping", "replconf", "psync", "sync", "role"}

// migrationCommands are what it takes to move a slot by hand: on the server that gives it, on the one that MIGRATE sends
// the keys to, and to find out what became of keys that both have, and of the server that gives it.
var migrationCommands = []string{
	"hello", "ping", "select", "asking", "info", "cluster|nodes",
	"cluster|getkeysinslot", "cluster|countkeysinslot", "cluster|setslot",
	"migrate", "restore", "restore-asking",
	"memory|usage", "object", "dump", "del", "unlink",
}

// loadCommands are what it takes to load a backup besides, and to make room for it where it replaces everything. They come last: before,
// functions may be taken away. There is no FLUSHALL among them: who replaces data names every key of it.
var loadCommands = []string{"function|load", "function|list", "function|delete", "scan"}

// Servers that move slots by themselves have commands for that. An unknown command in its rules keeps a user from being
// made, and a server from starting.
//
// The source of a migration connects to its target and sends what the keys consist of as commands of its own, and then whatever is
// written meanwhile. What is not about keys is never among that. Servers of Redis let each other in by a secret that they share, so that
// there only the operator needs a command more.
var (
	valkeyOperatorCommands  = []string{"cluster|migrateslots", "cluster|getslotmigrations"}
	slotStatsCommands       = []string{"cluster|slot-stats"}
	valkeyMigrationCommands = []string{"cluster|syncslots", "@write", "-flushall", "-flushdb", "-swapdb", "-function"}
	redisOperatorCommands   = []string{"cluster|migration"}
)

// commands are those of the operator and of the user that moves keys.
func commands(s software.Release) (operator, migration []string) {
	operator, migration = operatorCommands, migrationCommands
	can, _ := s.Capabilities() // Zero for a version that cannot be read.
	if can.SlotStats {
		operator = slices.Concat(operator, slotStatsCommands)
	}
	switch can.SlotMigration {
	case software.SlotMigrationPush:
		operator, migration = slices.Concat(operator, valkeyOperatorCommands), slices.Concat(migration, valkeyMigrationCommands)
	case software.SlotMigrationPull:
		operator = slices.Concat(operator, redisOperatorCommands)
	case software.SlotMigrationNone:
	}
	return operator, slices.Concat(migration, loadCommands)
}

// Access is who may connect to the servers of a cluster, and with what.
type Access struct {
	// Passwords is the content of the auth Secret.
	Passwords map[string]string
	// Open lets clients in without a password.
	Open bool
	// Replicated says that there is one shard, whose servers copy each other with the password
	// itself: a pod has that one at hand as it is at present, see leadsAlone in package manifests.
	Replicated bool
}

// String hides the passwords.
func (a Access) String() string { return fmt.Sprintf("%d passwords", len(a.Passwords)) }

// GoString hides them as well.
func (a Access) GoString() string { return a.String() }

// User is a user of a server, in the terms of ACL LIST. Of its password there are only hashes.
type User struct {
	Name string
	// On says that clients may connect as this user.
	On bool
	// NoPassword lets clients connect with any password.
	NoPassword bool
	// Passwords are the hashes of those that work.
	Passwords []string
	// Keys and Channels are patterns with the prefixes that ACL LIST shows: ~* &*.
	Keys, Channels []string
	// Commands begin with +@all or -@all.
	Commands []string
	// Selectors are further sets of rules, each in parentheses.
	Selectors []string
}

// Users are the users that the server of a pod is to have. The password of the replication user is that of the shard.
func (a Access) Users(pod string, s software.Release) ([]User, error) {
	for _, key := range PasswordKeys {
		if a.Passwords[key] == "" {
			return nil, fmt.Errorf("no password under the key %q", key)
		}
	}
	clients := User{Name: UserDefault, On: true, NoPassword: a.Open, Keys: []string{"~*"}, Channels: []string{"&*"}, Commands: []string{"+@all"}}
	if !a.Open {
		clients.Passwords = hashes(a.Works(PasswordDefault))
	}
	var shard []string
	for _, p := range a.Works(PasswordReplication) {
		shard = append(shard, a.shardPassword(p, pod))
	}
	operator, migration := commands(s)
	return []User{
		clients,
		internal(UserOperator, a.Works(PasswordOperator), operator),
		internal(UserReplication, shard, replicationCommands),
		internal(UserMigration, a.Works(PasswordMigration), migration, "~*"),
	}, nil
}

func internal(name string, passwords, commands []string, keys ...string) User {
	u := User{Name: name, On: true, Passwords: hashes(passwords), Keys: keys, Commands: []string{"-@all"}}
	for _, c := range commands {
		if !strings.HasPrefix(c, "-") {
			c = "+" + c
		}
		u.Commands = append(u.Commands, c)
	}
	return u
}

// ReplicationPassword is the password with which the server of a pod is to copy another one.
func (a Access) ReplicationPassword(pod string) string {
	return a.shardPassword(a.Passwords[PasswordReplication], pod)
}

func (a Access) shardPassword(password, pod string) string {
	if a.Replicated {
		return password
	}
	return ShardPassword(password, pod)
}

// ShardPassword is the password under which the servers of one shard copy each other. A replica connects to an address
// and does not ask who answers: where a pod of another shard has got the address of its primary, this keeps it out.
func ShardPassword(password, pod string) string {
	sum := hmac.New(sha256.New, []byte(password))
	_, _ = sum.Write([]byte(pod[:max(0, strings.LastIndexByte(pod, '-'))])) // The shard's StatefulSet. A hash never fails.
	return hex.EncodeToString(sum.Sum(nil))
}

func hashes(passwords []string) []string {
	out := make([]string, len(passwords))
	for i, p := range passwords {
		out[i] = Hash(p)
	}
	return out
}

// Hash is how a server tells of a password.
func Hash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return "#" + hex.EncodeToString(sum[:])
}

// AdmitsMark is what the replication user has besides where it is switched on in the file of users as well: servers do not tell what is
// there. It is a pattern of channels, and the user may use none.
const AdmitsMark = "&quorate:for-good"

// UsersText renders the file of users that a server starts with. The replication user is switched off where nobody may
// copy the server yet.
func UsersText(users []User, admitReplicas bool) string {
	var b strings.Builder
	for _, u := range users {
		state, mark := "on", ""
		switch {
		case !u.On || (u.Name == UserReplication && !admitReplicas):
			state = "off"
		case u.Name == UserReplication:
			mark = " " + AdmitsMark
		}
		b.WriteString("user " + u.Name + " " + state + " " + strings.Join(u.permissions(), " ") + mark + "\n")
	}
	return b.String()
}

// Rules are the arguments of ACL SETUSER that make a server's user the wanted one. The server
// applies all of them or none: no client is locked out between two of them, and connected clients
// stay connected. The start gate and the planner decide whether replicas may connect, see
// gate.Decision.Admit.
func (u User) Rules() []string {
	switch {
	case u.Name == UserReplication:
		return u.permissions()
	case u.On:
		return append([]string{"on"}, u.permissions()...)
	}
	return append([]string{"off"}, u.permissions()...)
}

func (u User) permissions() []string {
	rules := []string{"resetpass"}
	if u.NoPassword {
		rules = append(rules, "nopass")
	}
	rules = append(rules, u.Passwords...)
	rules = append(append(rules, "resetkeys"), u.Keys...)
	rules = append(append(rules, "resetchannels"), u.Channels...)
	return slices.Concat(rules, []string{"clearselectors"}, u.Selectors, u.Commands)
}

// Is reports whether a server's user is the wanted one. Redis 7.0 tells commands in an order of its own.
func (u User) Is(want User) bool {
	channels := u.Channels
	if u.Name == UserReplication {
		channels = slices.DeleteFunc(slices.Clone(channels), func(c string) bool { return c == AdmitsMark })
	}
	return u.Name == want.Name && (u.On == want.On || u.Name == UserReplication) && u.NoPassword == want.NoPassword &&
		sameWords(u.Passwords, want.Passwords) && sameWords(u.Keys, want.Keys) && sameWords(channels, want.Channels) &&
		sameWords(u.Commands, want.Commands) && sameWords(u.Selectors, want.Selectors)
}

func sameWords(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// ParseUsers reads the lines of ACL LIST. https://redis.io/docs/latest/commands/acl-list/
func ParseUsers(lines []string) ([]User, error) {
	out := make([]User, 0, len(lines))
	for _, line := range lines {
		u, err := parseUser(line)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// parseUser reads "user <name> <rule>...". Rules of no concern here, such as those about payloads and databases, are
// passed over. The message of an error must not hold the line: there are hashes of passwords in it.
func parseUser(line string) (User, error) {
	line, selectors := cutSelectors(line)
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "user" {
		return User{}, fmt.Errorf("a line of ACL LIST does not begin with a user's name")
	}
	u := User{Name: words[1], Selectors: selectors}
	for _, word := range words[2:] {
		switch {
		case word == "on":
			u.On = true
		case word == "nopass":
			u.NoPassword = true
		case word[0] == '#':
			u.Passwords = append(u.Passwords, word)
		case word[0] == '~' || word[0] == '%':
			u.Keys = append(u.Keys, word)
		case word[0] == '&':
			u.Channels = append(u.Channels, word)
		case word[0] == '+' || word[0] == '-':
			u.Commands = append(u.Commands, word)
		}
	}
	return u, nil
}

// cutSelectors takes the rules in parentheses out of a line, which end it. Patterns may hold parentheses but no space.
func cutSelectors(line string) (rest string, selectors []string) {
	rest, tail, found := strings.Cut(line, " (")
	if !found {
		return line, nil
	}
	for s := range strings.SplitSeq(strings.TrimSuffix(tail, ")"), ") (") {
		selectors = append(selectors, "("+s+")")
	}
	return rest, selectors
}
