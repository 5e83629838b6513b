package envtest

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

var userKind = kind{"EtcdUser", "etcdusers", `
apiVersion: quorate.dev/v1alpha1
kind: EtcdUser
metadata: {name: orders-app, namespace: default}
spec: {clusterName: orders}
`}

var validUsers = map[string]string{
	"minimal":              ``,
	"longest username":     `username: ` + strings.Repeat("u", 64),
	"username as mail":     `username: First.Last_2@example-1.com`,
	"one of each":          `permissions: [{prefix: /app/, access: ReadWrite}, {key: /flag, access: Read}, {range: {from: a, to: b}, access: Write}]`,
	"no permissions":       `permissions: []`,
	"every key":            `permissions: [{range: {from: "\0"}, access: ReadWrite}]`,
	"range by one byte":    `permissions: [{range: {from: a, to: "a\0"}, access: Read}]`,
	"keys beyond ASCII":    `permissions: [{prefix: "ключ/", access: Read}, {range: {from: "é", to: "ü"}, access: Read}]`,
	"nulls":                `{username: null, permissions: null, passwordSecret: null}`,
	"password of the user": `passwordSecret: {name: my.secret}`,
}

var invalidUsers = map[string]bad{
	"no cluster":                  {spec: `clusterName: <removed>`, field: "spec.clusterName", words: "Required"},
	"empty cluster":               {spec: `clusterName: ""`, field: "spec.clusterName", words: "must be the name of an EtcdCluster of the same namespace"},
	"cluster elsewhere":           {spec: `clusterName: team-a/orders`, field: "spec.clusterName", words: "of the same namespace"},
	"cluster with a namespace":    {spec: `clusterNamespace: team-a`, field: "spec.clusterNamespace", words: "unknown field"},
	"endless cluster":             {spec: `clusterName: ` + longName, field: "spec.clusterName", words: "may not be more than 40"},
	"root":                        {spec: `username: root`, field: "spec.username", words: "must not be root, client or begin with quorate-"},
	"root by its own name":        {whole: `metadata: {name: root}`, field: "spec.username", words: "metadata.name where it is not set"},
	"name in clients' cert":       {spec: `username: client`, field: "spec.username", words: "etcd takes the name in a certificate for the user"},
	"name in members' cert":       {spec: `username: quorate-peer`, field: "spec.username", words: "choose another one"},
	"username with a colon":       {spec: `username: "a:b"`, field: "spec.username", words: "must be letters, digits and . _ @ -"},
	"username with a space":       {spec: `username: "a b"`, field: "spec.username", words: "must be letters"},
	"username with a newline":     {spec: `username: "app\n"`, field: "spec.username", words: "must be letters"},
	"username in Cyrillic":        {spec: `username: арр`, field: "spec.username", words: "must be letters"},
	"empty username":              {spec: `username: ""`, field: "spec.username", words: "begin and end with a letter or digit"},
	"endless username":            {spec: `username: ` + strings.Repeat("u", 65), field: "spec.username", words: "may not be more than 64"},
	"name too long":               {whole: `metadata: {name: ` + strings.Repeat("a", 64) + `}`, field: "metadata", words: "at most 63"},
	"name with a dot":             {whole: `metadata: {name: my.app}`, field: "metadata", words: "lower case letters, digits and -"},
	"permission for nothing":      {spec: `permissions: [{access: Read}]`, field: "spec.permissions[0]", words: "exactly one of prefix, key and range"},
	"permission for two":          {spec: `permissions: [{key: a, access: Read}, {prefix: a, key: a, access: Read}]`, field: "spec.permissions[1]", words: "for example {prefix: /app/, access: ReadWrite}"},
	"permission for all three":    {spec: `permissions: [{prefix: a, key: a, range: {from: a}, access: Read}]`, field: "spec.permissions[0]", words: "exactly one of"},
	"permission without access":   {spec: `permissions: [{key: a}]`, field: "spec.permissions[0].access", words: "Required"},
	"unknown access":              {spec: `permissions: [{key: a, access: readwrite}]`, field: "spec.permissions[0].access", words: `supported values: "Read", "Write", "ReadWrite"`},
	"empty prefix":                {spec: `permissions: [{prefix: "", access: Read}]`, field: "spec.permissions[0].prefix", words: "an empty prefix would mean every key"},
	"empty key":                   {spec: `permissions: [{key: "", access: Read}]`, field: "spec.permissions[0].key", words: "key must not be empty"},
	"range from nothing":          {spec: `permissions: [{range: {from: ""}, access: Read}]`, field: "spec.permissions[0].range.from", words: "range.from must not be empty"},
	"range without beginning":     {spec: `permissions: [{range: {to: a}, access: Read}]`, field: "spec.permissions[0].range.from", words: "Required"},
	"range that ends as it began": {spec: `permissions: [{range: {from: a, to: a}, access: Read}]`, field: "spec.permissions[0].range.to", words: "must come after range.from"},
	"range backwards":             {spec: `permissions: [{range: {from: b, to: a}, access: Read}]`, field: "spec.permissions[0].range.to", words: "Leave it out for a range without end"},
	"range to nothing":            {spec: `permissions: [{range: {from: b, to: ""}, access: Read}]`, field: "spec.permissions[0].range.to", words: "must come after range.from"},
	"too many permissions":        {spec: `permissions: [` + strings.Repeat(`{key: a, access: Read}, `, 65) + `]`, field: "spec.permissions", words: "must have at most 64 items"},
	"endless key":                 {spec: `permissions: [{key: ` + strings.Repeat("k", 513) + `, access: Read}]`, field: "spec.permissions[0].key", words: "may not be more than 512"},
	"password in the spec":        {spec: `password: hunter2`, field: "spec.password", words: "unknown field"},
	"Secret without a name":       {spec: `passwordSecret: {}`, field: "spec.passwordSecret.name", words: "Required"},
	"Secret elsewhere":            {spec: `passwordSecret: {name: kube-system/mine}`, field: "spec.passwordSecret.name", words: "a Secret of the same namespace"},
	"Secret with a namespace":     {spec: `passwordSecret: {name: mine, namespace: kube-system}`, field: "spec.passwordSecret.namespace", words: "unknown field"},
}

var userChanges = map[string]change{
	"other permissions":       {to: `permissions: [{key: a, access: Read}]`},
	"no permissions":          {from: `permissions: [{key: a, access: Read}]`, to: `permissions: <removed>`},
	"a password of the user":  {to: `passwordSecret: {name: mine}`},
	"another Secret":          {from: `passwordSecret: {name: mine}`, to: `passwordSecret: {name: other}`},
	"generated password":      {from: `passwordSecret: {name: mine}`, to: `passwordSecret: <removed>`},
	"another cluster":         {to: `clusterName: carts`, field: "spec.clusterName", words: "create another EtcdUser for the other cluster"},
	"another username":        {from: `username: app`, to: `username: web`, field: "spec.username", words: "create another EtcdUser with the other name"},
	"a username":              {to: `username: web`, field: "spec.username", words: "cannot change"},
	"no username":             {from: `username: app`, to: `username: <removed>`, field: "spec.username", words: "cannot change"},
	"an invalid access later": {to: `permissions: [{key: a, access: All}]`, field: "spec.permissions[0].access", words: "supported values"},
}

func TestValidEtcdUsersAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, userKind, validUsers)
}

func TestInvalidEtcdUsersAreRefused(t *testing.T) { refuseAll(t, userKind, invalidUsers) }

func TestChangesOfEtcdUsers(t *testing.T) { changeAll(t, userKind, userChanges) }

// The default of a username cannot be written down in the schema, so writing it down oneself is no change.
func TestAUsernameMayBeSpelledOut(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	u := toUnstructured(t, parse(t, userKind.base))
	if err := s.client.Create(ctx, u); err != nil {
		t.Fatal(err)
	}
	next := toUnstructured(t, overlay(u.Object, parse(t, `spec: {username: orders-app}`)))
	if err := s.client.Update(ctx, next); err != nil {
		t.Error(err)
	}
	if err := s.client.Delete(ctx, next); err != nil {
		t.Fatal(err)
	}
}

// The names in certificates that the operator issues must not be those of users: etcd would let whoever holds one act as
// that user without a password.
func TestNoUserHasTheNameInACertificate(t *testing.T) {
	s := apiServer(t)
	for secret, leaf := range manifests.Leafs("orders", "default", "cluster.local") {
		u := toUnstructured(t, overlay(parse(t, userKind.base), parse(t, fmt.Sprintf(`spec: {username: %s}`, leaf.CommonName))))
		if err := s.client.Create(testContext(t), u, client.DryRunAll); err == nil {
			t.Errorf("a user may be named %s like the certificate in %s", leaf.CommonName, secret)
		}
	}
}

func TestTheLargestEtcdUserStaysWithinTheCostBudget(t *testing.T) {
	permissions := []any{}
	for i := range 64 {
		key := strings.Repeat("k", 510) + fmt.Sprint(i%10)
		permissions = append(permissions, object{"range": object{"from": key, "to": key + "x"}, "access": "ReadWrite"})
	}
	u := &unstructured.Unstructured{Object: overlay(parse(t, userKind.base), object{"spec": object{
		"permissions": permissions, "username": strings.Repeat("u", 64), "passwordSecret": object{"name": strings.Repeat("s", 253)},
	}})}
	if err := apiServer(t).client.Create(testContext(t), toUnstructured(t, u.Object), client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestAnyAdmittedEtcdUserCanBeReadByATypedClient(t *testing.T) {
	s, ctx, typed := apiServer(t), testContext(t), typedClient(t)
	for name, spec := range validUsers {
		u := toUnstructured(t, bad{spec: spec}.object(t, userKind))
		if err := s.client.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		if err := typed.List(ctx, &v1alpha1.EtcdUserList{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.client.Delete(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
}
