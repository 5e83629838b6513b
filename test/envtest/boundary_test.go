package envtest

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scheduling are the fields that name namespaces without reading anything there: beside which pods the scheduler puts those of the cluster.
const scheduling = "spec.template.affinity."

// TestNoFieldNamesAnotherNamespace keeps what is read and written in the namespace of the resource: whoever may write one there gains
// nothing elsewhere.
func TestNoFieldNamesAnotherNamespace(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(crdDir, "quorate.dev_*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	for _, file := range files {
		resource := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "quorate.dev_"), ".yaml")
		fields := 0
		walk("", loadCRD(t, resource), func(path string, p schemaProps) bool {
			fields++
			if strings.Contains(strings.ToLower(last(path)), "namespace") && !strings.HasPrefix(path, scheduling) {
				t.Errorf("%s: %s", resource, path)
			}
			if p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields {
				t.Errorf("%s: below %s anything may be written", resource, path)
			}
			return true
		})
		if fields < 10 {
			t.Errorf("%s: only %d fields were looked at", resource, fields)
		}
	}
}

// references are all fields that name an object which the operator reads, set to one of another namespace in the way of many tools. What only
// pods refer to, such as Secrets of their environment, Kubernetes looks for in the namespace of the pod.
var references = map[string][]string{
	"EtcdCluster": {
		`tls: {mode: Provided, secretName: other/x}`, `auth: {secretName: other/x}`, `storage: {className: other/x}`,
		`tls: {mode: CertManager, issuerRef: {name: other/x}}`, `template: {priorityClassName: other/x}`,
		`bootstrap: {restore: {backup: other/x}}`, `bootstrap: {restore: {destination: {url: "s3://b/p", credentials: {name: other/x}}}}`,
	},
	"RedisCluster": {
		`tls: {mode: Provided, secretName: other/x}`, `auth: {secretName: other/x}`, `bootstrap: {restore: {backup: other/x}}`,
	},
	"EtcdUser":       {`clusterName: other/x`, `passwordSecret: {name: other/x}`},
	"RedisUser":      {`clusterName: other/x`, `passwordSecret: {name: other/x}`},
	"Backup":         destinations,
	"BackupSchedule": destinations,
	"Autoscaler":     {`cluster: {kind: RedisCluster, name: other/x}`},
	"Restore":        {`cluster: {kind: EtcdCluster, name: other/x}`, `from: {backup: other/x}`},
}

var destinations = []string{
	`cluster: {kind: EtcdCluster, name: other/x}`, `destination: {url: "s3://b/p", credentials: {name: other/x}}`, `destination: {url: "s3://b/p", encryption: {name: other/x}}`,
	`destination: {url: "s3://b/p", serviceAccountName: other/x}`,
}

func TestNoReferenceLeavesTheNamespace(t *testing.T) {
	s := apiServer(t)
	for _, k := range append(slices.Clone(allKinds), redisUserKind) {
		if len(references[k.name]) == 0 {
			t.Errorf("nothing is tried for %s", k.name)
		}
		for _, spec := range references[k.name] {
			// The same with a name of its own namespace has to be let in: only that shows what is refused.
			fine := strings.ReplaceAll(spec, "other/x", "x")
			if err := s.client.Create(testContext(t), toUnstructured(t, bad{spec: fine}.object(t, k)), client.DryRunAll); err != nil {
				t.Errorf("%s with %s: %v", k.name, fine, err)
			}
			if err := s.client.Create(testContext(t), toUnstructured(t, bad{spec: spec}.object(t, k)), client.DryRunAll); err == nil {
				t.Errorf("%s is accepted with %s", k.name, spec)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(references)) {
		if !slices.ContainsFunc(append(slices.Clone(allKinds), redisUserKind), func(k kind) bool { return k.name == name }) {
			t.Errorf("%s is no kind", name)
		}
	}
}
