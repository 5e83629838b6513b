package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/test/need"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

const (
	crdDir     = "../../config/crd/bases"
	samplesDir = "../../config/samples"
)

// server is one API server with the CRDs of this tree, shared by all tests of the package.
type server struct {
	env    *envtest.Environment
	config *rest.Config
	// client asks for strict field validation, as kubectl does.
	client     client.Client
	kubeconfig string
}

var start = sync.OnceValues(func() (*server, error) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{crdDir}, ErrorIfCRDPathMissing: true}
	// What OpenShift asks of whoever sets an owner.
	env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	config, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server from %s: %w", os.Getenv("KUBEBUILDER_ASSETS"), err)
	}
	s := &server{env: env, config: config}
	plain, err := client.New(config, client.Options{})
	if err != nil {
		return s, err
	}
	s.client = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	dir, err := os.MkdirTemp("", "quorate-envtest-*")
	if err != nil {
		return s, err
	}
	s.kubeconfig = filepath.Join(dir, "kubeconfig")
	return s, os.WriteFile(s.kubeconfig, env.KubeConfig, 0o600)
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	// OnceValues returns what it has; where no test needed the server this would start it, so ask first.
	if started {
		if s, _ := start(); s != nil {
			if err := errors.Join(s.env.Stop(), os.RemoveAll(filepath.Dir(s.kubeconfig))); err != nil {
				fmt.Fprintln(os.Stderr, "stop the API server:", err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

var started bool

// apiServer returns the running API server.
func apiServer(t *testing.T) *server {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		need.Missing(t, `KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS="$(hack/kind/kind.sh envtest-assets)"`)
	}
	started = true
	s, err := start()
	if err != nil {
		t.Fatalf("no API server: %v", err)
	}
	return s
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// kubectl runs the kubectl that came with the API server.
func (s *server) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	bin := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	cmd := exec.CommandContext(testContext(t), bin, append([]string{"--kubeconfig", s.kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// object is a resource as plain data.
type object = map[string]any

func parse(t *testing.T, text string) object {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("the test's own YAML: %v\n%s", err, text)
	}
	return o
}

// removed as a value in an overlay takes the key away; a null stays a null, which is worth testing too.
const removed = "<removed>"

// overlay lays o over base, maps key by key, everything else as a whole.
func overlay(base, o object) object {
	out := object{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range o {
		below, isMap := out[k].(object)
		above, wantMap := v.(object)
		switch {
		case v == removed:
			delete(out, k)
		case isMap && wantMap:
			out[k] = overlay(below, above)
		default:
			out[k] = v
		}
	}
	return out
}

func toUnstructured(t *testing.T, o object) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// refusal checks that err refuses the field with the words.
func refusal(t *testing.T, err error, field, words string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want %s refused with %q", field, words)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("no answer of the API server: %v", err)
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		// Unknown fields and undecodable values have no causes.
		if !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), words) {
			t.Fatalf("refused, but not %s with %q: %v", field, words, err)
		}
		return
	}
	for _, c := range details.Causes {
		if c.Field == field && strings.Contains(c.Message, words) {
			return
		}
	}
	t.Fatalf("refused, but not %s with %q: %v", field, words, err)
}

// kind is what the tables of both kinds have in common.
type kind struct {
	name     string // EtcdCluster
	resource string // etcdclusters
	base     string // a valid resource
}

var (
	etcdKind = kind{"EtcdCluster", "etcdclusters", `
apiVersion: quorate.dev/v1alpha1
kind: EtcdCluster
metadata: {name: orders, namespace: default}
spec: {size: 3, version: 3.6.16, storage: {size: 1Gi}}
`}
	redisKind = kind{"RedisCluster", "redisclusters", `
apiVersion: quorate.dev/v1alpha1
kind: RedisCluster
metadata: {name: carts, namespace: default}
spec: {version: 8.0.2, shards: 3, storage: {size: 1Gi}}
`}
)

// bad is a specification, laid over the base, that must be refused.
type bad struct {
	spec  string // YAML of what differs under spec
	whole string // the same for the whole resource
	field string
	words string
}

func (b bad) object(t *testing.T, k kind) object {
	t.Helper()
	o := parse(t, k.base)
	if b.spec != "" {
		o = overlay(o, object{"spec": parse(t, b.spec)})
	}
	if b.whole != "" {
		o = overlay(o, parse(t, b.whole))
	}
	return o
}

func merged[V any](tables ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, table := range tables {
		for name, v := range table {
			if _, twice := out[name]; twice {
				panic("two cases are named " + name)
			}
			out[name] = v
		}
	}
	return out
}
