package redis

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Users of every server besides "default", which is the clients'.
const (
	// UserOperator is who the operator connects as.
	UserOperator = "quorate"
	// UserReplication is who replicas connect to their primary as.
	UserReplication = "replication"
)

// Keys of the passwords in the auth Secret.
const (
	PasswordDefault     = "password"
	PasswordOperator    = "operator"
	PasswordReplication = "replication"
)

// operatorCommands are all that the operator's user may do: no key, no channel, nothing that reads or writes data.
var operatorCommands = []string{
	"hello", "ping", "info", "role", "client|setname",
	"cluster|myid", "cluster|nodes", "cluster|info",
	"cluster|set-config-epoch", "cluster|meet", "cluster|addslotsrange", "cluster|replicate", "cluster|forget",
	"cluster|failover",
	// To switch the replication user on, see Decision.Admit. Whoever may do that may do anything to users, which gives the
	// operator nothing that it does not have: it made all passwords.
	"acl|getuser", "acl|setuser",
	// For the settings that take effect without a restart.
	"config|get", "config|set",
}

// replicationCommands are what a replica sends to its primary.
var replicationCommands = []string{"ping", "replconf", "psync", "sync"}

// ShardPassword is the password under which the servers of one shard copy each other. A replica connects to an address
// and does not ask who answers: where a pod of another shard has got the address of its primary, this keeps it out.
func ShardPassword(password, pod string) string {
	sum := hmac.New(sha256.New, []byte(password))
	_, _ = sum.Write([]byte(pod[:max(0, strings.LastIndexByte(pod, '-'))])) // The shard's StatefulSet. A hash never fails.
	return hex.EncodeToString(sum.Sum(nil))
}

// Users renders the file of users. Only hashes of the passwords are in it. The password of the replication user is that
// of the shard, and the user is switched off where nobody may copy the server yet.
func Users(passwords map[string]string, clientsNeedPassword, admitReplicas bool) (string, error) {
	for _, key := range []string{PasswordDefault, PasswordOperator, PasswordReplication} {
		if passwords[key] == "" {
			return "", fmt.Errorf("no password under the key %q", key)
		}
	}
	guard := "nopass"
	if clientsNeedPassword {
		guard = hash(passwords[PasswordDefault])
	}
	return fmt.Sprintf("user default on %s ~* &* +@all\n", guard) +
		user(UserOperator, true, passwords[PasswordOperator], operatorCommands) +
		user(UserReplication, admitReplicas, passwords[PasswordReplication], replicationCommands), nil
}

func user(name string, on bool, password string, commands []string) string {
	state := "off"
	if on {
		state = "on"
	}
	return fmt.Sprintf("user %s %s %s resetkeys resetchannels -@all +%s\n", name, state, hash(password), strings.Join(commands, " +"))
}

func hash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return "#" + hex.EncodeToString(sum[:])
}
