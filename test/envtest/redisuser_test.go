package envtest

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

var redisUserKind = kind{"RedisUser", "redisusers", `
apiVersion: quorate.dev/v1alpha1
kind: RedisUser
metadata: {name: carts-app, namespace: default}
spec: {clusterName: carts}
`}

var validRedisUsers = map[string]string{
	"minimal":               ``,
	"longest username":      `username: ` + strings.Repeat("u", 64),
	"username as mail":      `username: First.Last_2@example-1.com`,
	"one of each":           `{keys: [{pattern: "app:*", access: ReadWrite}, {pattern: "in:?[a-c]", access: Read}, {pattern: out, access: Write}], channels: ["app:*"], categories: [read, pubsub], commands: [keys, "memory|usage", ft.search]}`,
	"may delete everything": `{keys: [{pattern: "app:*", access: Read}, {pattern: "*", access: ReadWrite}], commands: [flushall, flushdb]}`,
	"every key":             `keys: [{pattern: "*", access: ReadWrite}]`,
	"nothing":               `{keys: [], channels: [], categories: [], commands: []}`,
	"nulls":                 `{username: null, keys: null, channels: null, categories: null, commands: null, passwordSecret: null}`,
	"password of the user":  `passwordSecret: {name: my.secret}`,
}

var invalidRedisUsers = map[string]bad{
	"no cluster":              {spec: `clusterName: <removed>`, field: "spec.clusterName", words: "Required"},
	"cluster elsewhere":       {spec: `clusterName: team-a/carts`, field: "spec.clusterName", words: "of the same namespace"},
	"the clients' user":       {spec: `username: default`, field: "spec.username", words: "every server has these users"},
	"the operator's user":     {spec: `username: quorate`, field: "spec.username", words: "choose another one"},
	"replicas' by its name":   {whole: `metadata: {name: replication}`, field: "spec.username", words: "metadata.name where it is not set"},
	"migrations' user":        {spec: `username: migration`, field: "spec.username", words: "must not be default, quorate, replication or migration"},
	"username with a space":   {spec: `username: "a b"`, field: "spec.username", words: "must be letters"},
	"username with a newline": {spec: `username: "app\n"`, field: "spec.username", words: "must be letters"},
	"username with a rule":    {spec: `username: "app +@all"`, field: "spec.username", words: "must be letters"},
	"endless username":        {spec: `username: ` + strings.Repeat("u", 65), field: "spec.username", words: "may not be more than 64"},
	"name with a dot":         {whole: `metadata: {name: my.app}`, field: "metadata", words: "lower case letters, digits and -"},
	"key without access":      {spec: `keys: [{pattern: a}]`, field: "spec.keys[0].access", words: "Required"},
	"key without a pattern":   {spec: `keys: [{access: Read}]`, field: "spec.keys[0].pattern", words: "Required"},
	"key with a rule":         {spec: `keys: [{pattern: "a +@all", access: Read}]`, field: "spec.keys[0].pattern", words: "without spaces"},
	"key with a newline":      {spec: `keys: [{pattern: "a\nuser b", access: Read}]`, field: "spec.keys[0].pattern", words: "printable ASCII"},
	"empty key":               {spec: `keys: [{pattern: "", access: Read}]`, field: "spec.keys[0].pattern", words: "at least one printable"},
	"unknown access":          {spec: `keys: [{pattern: a, access: All}]`, field: "spec.keys[0].access", words: "supported values"},
	"too many keys":           {spec: `keys: [` + strings.Repeat(`{pattern: a, access: Read}, `, 65) + `]`, field: "spec.keys", words: "must have at most 64 items"},
	"channel with a space":    {spec: `channels: ["a b"]`, field: "spec.channels[0]", words: "without spaces"},
	"all commands":            {spec: `categories: [all]`, field: "spec.categories[0]", words: "supported values"},
	"commands of admins":      {spec: `categories: [admin]`, field: "spec.categories[0]", words: "supported values"},
	"dangerous commands":      {spec: `categories: [dangerous]`, field: "spec.categories[0]", words: "supported values"},
	"slow commands":           {spec: `categories: [slow]`, field: "spec.categories[0]", words: "supported values"},
	"a command in capitals":   {spec: `commands: [GET]`, field: "spec.commands[0]", words: "lower case letters"},
	"a command with a rule":   {spec: `commands: ["get +@all"]`, field: "spec.commands[0]", words: "lower case letters"},
	"a category as a command": {spec: `commands: ["@all"]`, field: "spec.commands[0]", words: "lower case letters"},
	"acl":                     {spec: `commands: [acl]`, field: "spec.commands[0]", words: "belong to the operator"},
	"acl setuser":             {spec: `commands: ["acl|setuser"]`, field: "spec.commands[0]", words: "belong to the operator"},
	"cluster reset":           {spec: `commands: ["cluster|reset"]`, field: "spec.commands[0]", words: "every user may do"},
	"flushall of some keys":   {spec: `{keys: [{pattern: "app:*", access: ReadWrite}], commands: [flushall]}`, field: "spec.commands", words: "the pattern * with access ReadWrite"},
	"flushdb without keys":    {spec: `commands: [flushdb]`, field: "spec.commands", words: "whatever spec.keys allows"},
	"flushall of a reader":    {spec: `{keys: [{pattern: "*", access: Read}], commands: [get, flushall]}`, field: "spec.commands", words: "remove them"},
	"password in the spec":    {spec: `password: hunter2`, field: "spec.password", words: "unknown field"},
	"Secret elsewhere":        {spec: `passwordSecret: {name: kube-system/mine}`, field: "spec.passwordSecret.name", words: "a Secret of the same namespace"},
}

var redisUserChanges = map[string]change{
	"other rights":           {to: `{keys: [{pattern: a, access: Read}], categories: [read]}`},
	"a password of the user": {to: `passwordSecret: {name: mine}`},
	"another cluster":        {to: `clusterName: orders`, field: "spec.clusterName", words: "create another RedisUser for the other cluster"},
	"another username":       {from: `username: app`, to: `username: web`, field: "spec.username", words: "create another RedisUser with the other name"},
	"a username":             {to: `username: web`, field: "spec.username", words: "cannot change"},
}

func TestValidRedisUsersAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, redisUserKind, validRedisUsers)
}

func TestInvalidRedisUsersAreRefused(t *testing.T) { refuseAll(t, redisUserKind, invalidRedisUsers) }

func TestChangesOfRedisUsers(t *testing.T) { changeAll(t, redisUserKind, redisUserChanges) }

// What looks after servers, copies or users is refused command by command.
func TestCommandsThatBelongToTheOperatorAreRefused(t *testing.T) {
	s := apiServer(t)
	for _, command := range []string{
		"acl", "bgrewriteaof", "bgsave", "client|kill", "cluster|failover", "commandlog", "config", "config|set", "debug", "failover", "latency|reset", "migrate",
		"module|load", "monitor", "pfdebug", "pfselftest", "psync", "replconf", "replicaof", "restore", "restore-asking", "save", "shutdown", "slaveof", "slowlog|reset",
		"swapdb", "sync", "trimslots", "ft.config", "ft.config|set",
	} {
		u := toUnstructured(t, overlay(parse(t, redisUserKind.base), parse(t, fmt.Sprintf(`spec: {commands: [%q]}`, command))))
		if err := s.client.Create(testContext(t), u, client.DryRunAll); err == nil {
			t.Errorf("%s was accepted", command)
		}
	}
}

func TestTheLargestRedisUserStaysWithinTheCostBudget(t *testing.T) {
	var keys, channels, commands, categories []any
	for range 64 {
		keys = append(keys, object{"pattern": strings.Repeat("k", 256), "access": "ReadWrite"})
		channels = append(channels, strings.Repeat("c", 256))
		commands = append(commands, strings.Repeat("d", 64))
	}
	for range 32 {
		categories = append(categories, "hyperloglog")
	}
	u := &unstructured.Unstructured{Object: overlay(parse(t, redisUserKind.base), object{"spec": object{
		"keys": keys, "channels": channels, "commands": commands, "categories": categories, "username": strings.Repeat("u", 64),
	}})}
	if err := apiServer(t).client.Create(testContext(t), toUnstructured(t, u.Object), client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestAnyAdmittedRedisUserCanBeReadByATypedClient(t *testing.T) {
	s, ctx, typed := apiServer(t), testContext(t), typedClient(t)
	for name, spec := range validRedisUsers {
		u := toUnstructured(t, bad{spec: spec}.object(t, redisUserKind))
		if err := s.client.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		if err := typed.List(ctx, &v1alpha1.RedisUserList{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.client.Delete(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
}
