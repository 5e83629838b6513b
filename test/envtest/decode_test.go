package envtest

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// nastyQuantities are what the CRD's own pattern lets through, and more. Some of them resource.ParseQuantity cannot
// read, and some it reads and is never done with.
var nastyQuantities = []any{
	"1e1.5", "1e5.", "1e.5", "1E1.5", "1e99999999999999999999", "1e999999999", "1e-999999999", "1e5", "1E5", "1E", "1Ei",
	".5", "5.", ".5Gi", "5.Gi", "+1Gi", "-1Gi", "-0", "1n", "1u", "1m", "0.0000000000000001", "1.0000000000000000000001Gi",
	"1500M", "1.5Gi", "1Gi", "99999999999999999999999999Pi", "", " ", ".", "1 Gi", "1GiB", "0x10",
	0, 1, -1, 1073741824, int64(1) << 62, 1e30, 1.5,
}

// nastyNumbers do not fit into, or are no whole numbers of, 32 bits.
var nastyNumbers = []any{int64(1) << 32, -(int64(1) << 32), 1e10, 1e19, 1e30, -1e30, 1.5, int64(1)<<31 - 1}

var quantityFields = map[string][]string{
	etcdKind.name: {
		`storage: {size: %s}`, `{resources: {limits: {cpu: %s}}}`, `{resources: {limits: {memory: %s}}}`,
		`{resources: {requests: {ephemeral-storage: %s}}}`, `config: {quotaBackendBytes: %s}`, `config: {maxRequestBytes: %s}`,
		`template: {env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: %s}}}]}`,
	},
	redisKind.name: {
		`storage: {size: %s}`, `{resources: {limits: {cpu: %s}}}`, `{resources: {limits: {memory: %s}}}`,
		`{resources: {requests: {ephemeral-storage: %s}}}`, `config: {maxMemory: %s}`,
		`monitoring: {exporter: {resources: {limits: {memory: %s}}}}`, `monitoring: {exporter: {resources: {requests: {cpu: %s}}}}`,
	},
}

var numberFields = map[string][]string{
	etcdKind.name: {
		`size: %s`, `config: {snapshotCount: %s}`, `template: {securityContext: {runAsUser: %s}}`,
		`template: {securityContext: {supplementalGroups: [%s]}}`,
		`template: {tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: %s}]}`,
		`template: {topologySpreadConstraints: [{maxSkew: %s, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}`,
		`template: {topologySpreadConstraints: [{maxSkew: 1, minDomains: %s, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}`,
		`template: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: %s, preference: {}}]}}}`,
		`template: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: %s, podAffinityTerm: {topologyKey: a}}]}}}`,
	},
	redisKind.name: {`shards: %s`, `replicasPerShard: %s`, `template: {securityContext: {fsGroup: %s}}`},
}

// One object that a typed client cannot decode stops the lists and watches of every namespace. So whatever the API
// server lets in must decode.
func TestWhateverIsAdmittedCanBeReadByATypedClient(t *testing.T) {
	typed := typedClient(t)
	for _, k := range kinds {
		specs := []string{}
		for _, spec := range merged(map[string]map[string]string{etcdKind.name: merged(validEtcd, validRestores, validEtcdRestores), redisKind.name: merged(validRedis, validRestores)}[k.name], validBoth) {
			specs = append(specs, spec)
		}
		specs = append(specs, fill(quantityFields[k.name], nastyQuantities)...)
		specs = append(specs, fill(numberFields[k.name], nastyNumbers)...)
		admitted := 0
		for i, spec := range specs {
			u := toUnstructured(t, bad{spec: spec, whole: fmt.Sprintf(`metadata: {name: decode-%d}`, i)}.object(t, k))
			if decodes(t, typed, k, u, spec) {
				admitted++
			}
		}
		t.Logf("%s: %d of %d specs admitted, and every one of them decoded", k.name, admitted, len(specs))
	}
}

// decodes creates u if the API server lets it, and then reads the whole list of its kind as the operator does.
func decodes(t *testing.T, typed client.Client, k kind, u *unstructured.Unstructured, spec string) bool {
	t.Helper()
	s, ctx := apiServer(t), testContext(t)
	if err := s.client.Create(ctx, u); err != nil {
		return false
	}
	var list client.ObjectList = &v1alpha1.EtcdClusterList{}
	if k.name == redisKind.name {
		list = &v1alpha1.RedisClusterList{}
	}
	if err := typed.List(ctx, list); err != nil {
		t.Errorf("%s: admitted, but no typed client can list it: %s: %v", k.name, spec, err)
	}
	if err := s.client.Delete(ctx, u); err != nil {
		t.Fatal(err)
	}
	return true
}

func typedClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(apiServer(t).config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fill puts each value into each template, as text is quoted and numbers are not.
func fill(templates []string, values []any) []string {
	out := []string{}
	for _, template := range templates {
		for _, v := range values {
			format := "%v"
			if _, text := v.(string); text {
				format = "%q"
			}
			out = append(out, fmt.Sprintf(template, fmt.Sprintf(format, v)))
		}
	}
	return out
}
