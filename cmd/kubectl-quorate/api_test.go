package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/need"
)

// server is an API server with the CRDs, shared by all tests.
type server struct {
	env        *envtest.Environment
	client     client.WithWatch
	kubeconfig string
}

var started bool

var start = sync.OnceValues(func() (*server, error) {
	s := &server{env: &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}}
	config, err := s.env.Start()
	if err != nil {
		return nil, err
	}
	known, err := scheme()
	if err != nil {
		return s, err
	}
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: known}); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "quorate-plugin-*")
	if err != nil {
		return s, err
	}
	s.kubeconfig = filepath.Join(dir, "kubeconfig")
	return s, os.WriteFile(s.kubeconfig, s.env.KubeConfig, 0o600)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if s, _ := start(); s != nil {
			if err := errors.Join(s.env.Stop(), os.RemoveAll(filepath.Dir(s.kubeconfig))); err != nil {
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// world is a namespace of its own in the API server.
type world struct {
	*server
	t  *testing.T
	ns string
}

// newWorld makes a namespace.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		need.Missing(t, `KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS="$(hack/kind/kind.sh envtest-assets)"`)
	}
	started = true
	s, err := start()
	if err != nil {
		t.Fatalf("no API server: %v", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "plugin-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	w := &world{server: s, t: t}
	w.create(ns)
	w.ns = ns.Name
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if w.ns != "" {
		o.SetNamespace(w.ns)
	}
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) orders() *v1alpha1.EtcdCluster {
	w.t.Helper()
	o := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1alpha1.EtcdClusterSpec{
		Size: 3, Version: "3.6.16", Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
	w.create(o)
	return o
}

// run runs the plugin as a person in the namespace who types in.
func (w *world) run(in string, args ...string) (out, said string, err error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	root := newRoot(streams{in: strings.NewReader(in), out: &stdout, err: &stderr, typed: in != ""})
	root.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "-n", w.ns}, args...))
	err = root.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// want runs the plugin, and fails unless it works and prints all the words.
func (w *world) want(args []string, words ...string) string {
	w.t.Helper()
	out, said, err := w.run("", args...)
	if err != nil {
		w.t.Fatalf("%q: %v\n%s%s", args, err, out, said)
	}
	for _, word := range words {
		if !strings.Contains(out+said, word) {
			w.t.Errorf("%q does not say %q:\n%s%s", args, word, out, said)
		}
	}
	return out
}

// refuse runs the plugin, and fails unless it ends with an error that has all the words.
func (w *world) refuse(args []string, words ...string) {
	w.t.Helper()
	out, said, err := w.run("", args...)
	if err == nil {
		w.t.Fatalf("%q works:\n%s%s", args, out, said)
	}
	for _, word := range words {
		if !strings.Contains(explain(err), word) {
			w.t.Errorf("%q does not say %q: %s", args, word, explain(err))
		}
	}
}

// whenever sets the status of objects as the operator would, whenever they change.
func whenever[O client.Object](w *world, list client.ObjectList, report func(O) bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	watch, err := w.client.Watch(ctx, list, client.InNamespace(w.ns))
	if err != nil {
		w.t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watch.ResultChan() {
			o, ok := event.Object.(O)
			if !ok {
				continue
			}
			if before, _ := o.DeepCopyObject().(O); report(o) {
				if err := w.client.Status().Patch(ctx, o, client.MergeFrom(before)); err != nil && ctx.Err() == nil {
					w.t.Errorf("report: %v", err)
				}
			}
		}
	})
	w.t.Cleanup(func() { watch.Stop(); cancel(); done.Wait() })
}

func condition(o client.Object, kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.GetGeneration(), LastTransitionTime: metav1.Now()}
}

func TestStatusListsWhatThereIs(t *testing.T) {
	w := newWorld(t)
	w.want([]string{"status"}, "There is no cluster in namespace "+w.ns, "-A")
	w.orders()
	w.create(&v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "carts"}, Spec: v1alpha1.RedisClusterSpec{Version: "8.0.2", Shards: 3}})
	w.want([]string{"status"}, "EtcdCluster orders", "RedisCluster carts  redis")
	w.want([]string{"status", "-A"}, "EtcdCluster "+w.ns+"/orders")
	var got struct{ Clusters []clusterView }
	if err := json.Unmarshal([]byte(w.want([]string{"status", "ec/orders", "-o", "json"})), &got); err != nil || len(got.Clusters) != 1 || got.Clusters[0].Name != "orders" {
		t.Errorf("-o json: %+v, %v", got, err)
	}
	w.refuse([]string{"status", "ec/other"}, "there is no EtcdCluster other", w.ns, "-n")
	w.refuse([]string{"status", "orders"}, "kind/name")
	w.refuse([]string{"status", "-o", "wide"}, "json or yaml")
}

func TestStatusFollowsChanges(t *testing.T) {
	w := newWorld(t)
	o := w.orders()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	page := &pages{seen: make(chan string, 16)}
	root := newRoot(streams{out: page, err: page})
	root.SetArgs([]string{"--kubeconfig", w.kubeconfig, "-n", w.ns, "status", "--watch"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	page.await(t, "Unknown")
	before := o.DeepCopy()
	o.Status.Activity = "something new"
	o.Status.Conditions = []metav1.Condition{condition(o, v1alpha1.ConditionReconciling, metav1.ConditionTrue, "New", "something new")}
	if err := w.client.Status().Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	page.await(t, "Reconciling: something new")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
}

// pages hands on what is written.
type pages struct{ seen chan string }

func (p *pages) Write(raw []byte) (int, error) {
	p.seen <- string(raw)
	return len(raw), nil
}

func (p *pages) await(t *testing.T, words string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case page := <-p.seen:
			if strings.Contains(page, words) {
				return
			}
		case <-late:
			t.Fatalf("no page says %q", words)
		}
	}
}

func TestAPlanIsMadeOfWhatThereIsAndOfAManifest(t *testing.T) {
	w := newWorld(t)
	w.orders()
	t.Log(w.want([]string{"plan", "ec/orders"}, "EtcdCluster orders", "next", "why"))
	w.want([]string{"plan", "ec/orders", "--explain"}, "rule", `(phase "`)
	edited := filepath.Join(t.TempDir(), "edited.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, metadata: {name: orders}, spec: {size: 4, version: 3.6.16, storage: {size: 1Gi}}}")
	w.refuse([]string{"plan", "-f", edited}, "would not be applied", "spec.size must be 1, 3, 5 or 7")
	write("{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, metadata: {name: orders}, spec: {size: 5, version: 3.6.16, storage: {size: 1Gi}}}")
	w.refuse([]string{"plan", "ec/other", "-f", edited}, "leave the name out")
	var got planView
	if err := json.Unmarshal([]byte(w.want([]string{"plan", "-f", edited, "-o", "json"})), &got); err != nil {
		t.Fatal(err)
	}
	if !got.DryRun || got.Settled || got.Step == "" || !strings.Contains(got.Step, "5") {
		t.Errorf("the plan of a manifest: %+v", got)
	}
	write("{apiVersion: quorate.dev/v1alpha1, kind: RedisCluster, metadata: {name: fresh}, spec: {version: 8.0.2, shards: 3}}")
	w.want([]string{"plan", "-f", edited}, "RedisCluster fresh", "nothing has been changed")
	var o v1alpha1.EtcdCluster
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "orders"}, &o); err != nil || o.Spec.Size != 3 || o.Generation != 1 {
		t.Errorf("after the dry runs the cluster is %+v, %v", o.Spec, err)
	}
	for _, list := range []client.ObjectList{&v1alpha1.RedisClusterList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		if err := w.client.List(t.Context(), list, client.InNamespace(w.ns)); err != nil || meta.LenList(list) != 0 {
			t.Errorf("the plans have left %d of %T, %v", meta.LenList(list), list, err)
		}
	}
}

func TestWaitingEndsInTime(t *testing.T) {
	w := newWorld(t)
	w.orders()
	w.refuse([]string{"wake", "ec/orders", "--wait", "--timeout", "1s"}, "orders: it was not done within 1s", "goes on", "--timeout")
}

func TestWhoCannotAskServersGetsNoPlan(t *testing.T) {
	w := newWorld(t)
	w.orders()
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	})
	w.want([]string{"status", "--as", "jane"}, "EtcdCluster orders")
	w.refuse([]string{"plan", "ec/orders", "--as", "jane"}, "pods/portforward", w.ns)
	w.refuse([]string{"hibernate", "ec/orders", "--as", "jane"}, "forbidden", "cure: ask for that right")
	w.refuse([]string{"status", "--as", "nobody"}, "forbidden", "cure: ask for that right")
}

func TestAClusterSleepsAndWakes(t *testing.T) {
	w := newWorld(t)
	o := w.orders()
	whenever(w, &v1alpha1.EtcdClusterList{}, func(o *v1alpha1.EtcdCluster) bool {
		if o.Status.ObservedGeneration == o.Generation {
			return false
		}
		o.Status.ObservedGeneration = o.Generation
		reason, ready := v1alpha1.ReasonSettled, metav1.ConditionTrue
		if o.IsHibernated() {
			reason, ready = cluster.ReasonHibernated, metav1.ConditionFalse
		}
		o.Status.Activity = "it is " + reason
		meta.SetStatusCondition(&o.Status.Conditions, condition(o, v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, "it is "+reason))
		meta.SetStatusCondition(&o.Status.Conditions, condition(o, v1alpha1.ConditionReady, ready, reason, "it is "+reason))
		return true
	})
	w.want([]string{"hibernate", "ec/orders", "--wait"}, "it is Hibernated")
	w.want([]string{"status", "ec/orders"}, "Hibernated: ")
	w.want([]string{"wake", "ec/orders", "--wait"}, "it is Settled")
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.Spec.Hibernated != nil {
		t.Errorf("awake, spec.hibernated is %v, %v", o.Spec.Hibernated, err)
	}
	w.create(&v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "carts"}, Spec: v1alpha1.RedisClusterSpec{Version: "8.0.2", Shards: 3}})
	w.refuse([]string{"hibernate", "rdc/carts"}, "only an EtcdCluster", "kubectl quorate backup rdc/carts")
}

func TestABackupIsFollowedToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.orders()
	w.refuse([]string{"backup", "ec/orders"}, "--destination")
	w.refuse([]string{"backup", "ec/orders", "--credentials", "s3"}, "--destination")
	w.create(&v1alpha1.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: v1alpha1.BackupScheduleSpec{
		Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}, Schedule: "@daily",
		Destination: v1alpha1.BackupDestination{URL: "s3://backups/orders?region=x", Credentials: &v1alpha1.SecretReference{Name: "s3"}},
	}})
	whenever(w, &v1alpha1.BackupList{}, func(b *v1alpha1.Backup) bool {
		switch {
		case len(b.Status.Conditions) > 0:
			return false
		case b.Name == "bad":
			b.Status.Conditions = []metav1.Condition{condition(b, v1alpha1.ConditionStalled, metav1.ConditionTrue, "StoreRefused", "there is no bucket backups: make one")}
		case b.Status.Activity == "":
			b.Status.Activity = "half of it is stored"
		default:
			b.Status.Engine, b.Status.Size, b.Status.StoredSize, b.Status.Directory = "etcd 3.6.16", 3<<20, 1<<20, "orders-1"
			b.Status.Conditions = []metav1.Condition{
				condition(b, v1alpha1.ConditionComplete, metav1.ConditionTrue, "Stored", "it is stored"), condition(b, v1alpha1.ConditionVerified, metav1.ConditionTrue, "Whole", "it is whole"),
			}
			b.Status.Verification = &v1alpha1.BackupVerification{Time: metav1.Now(), Keys: 7, Server: "etcd 3.6.16"}
		}
		return true
	})
	w.want([]string{"backup", "ec/orders", "--name", "now", "--verify", "--wait"},
		"half of it is stored", "Backup now is complete", "3.0 MiB stored as 1.0 MiB in orders-1", "7 keys on a server of etcd 3.6.16")
	var b v1alpha1.Backup
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "now"}, &b); err != nil || b.Spec.Destination.Credentials.Name != "s3" || !b.Verifies() {
		t.Errorf("the Backup is %+v, %v", b.Spec, err)
	}
	w.refuse([]string{"backup", "ec/orders", "--name", "now"}, "--name")
	w.refuse([]string{"backup", "ec/orders", "--name", "bad", "--wait", "--destination", "s3://backups/x?region=x"}, "there is no bucket", "StoreRefused")
}

// restores reports on Restores as the operator would: it asks for a confirmation, and then it is done.
func restores(w *world) {
	whenever(w, &v1alpha1.RestoreList{}, func(r *v1alpha1.Restore) bool {
		set := func(c metav1.Condition) { meta.SetStatusCondition(&r.Status.Conditions, c) }
		switch {
		case r.Status.Plan == "":
			r.Status.Plan, r.Status.Activity = "1a2b3c", "plan 1a2b3c: all data of orders is replaced"
			r.Status.Found = &v1alpha1.RestoreFound{Directory: "orders-1", Engine: "etcd 3.6.16", Time: metav1.Now(), Size: 1 << 20, Revision: 42}
			set(condition(r, v1alpha1.ConditionReconciling, metav1.ConditionFalse, planner.ReasonUnconfirmed, r.Status.Activity))
			set(condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, planner.ReasonUnconfirmed, r.Status.Activity))
		case r.Annotations[v1alpha1.AnnotationConfirm] == r.Status.Plan && r.Status.Revision == 0:
			r.Status.Revision, r.Status.Activity = 43, "the backup is restored"
			set(condition(r, v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSettled, r.Status.Activity))
			set(condition(r, v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled, "no"))
			set(condition(r, v1alpha1.ConditionComplete, metav1.ConditionTrue, planner.ReasonRestored, "done"))
		default:
			return false
		}
		return true
	})
}

func TestARestoreIsCarriedOutOnceItIsConfirmed(t *testing.T) {
	w := newWorld(t)
	w.orders()
	restores(w)
	w.refuse([]string{"restore", "ec/orders"}, "--backup", "--destination")
	w.refuse([]string{"restore", "ec/orders", "--backup", "b", "--time", "yesterday"}, "2026-05-01T10:00:00Z")
	w.refuse([]string{"restore", "ec/orders", "--backup", "b", "--confirm", "1a2b3c"}, "--name")
	w.refuse([]string{"restore", "ec/orders", "--name", "back", "--confirm", "1a2b3c"}, "without --confirm first")

	// A script runs it twice.
	w.want([]string{"restore", "ec/orders", "--backup", "b", "--name", "back"},
		"Plan 1a2b3c", "orders-1", "revision 42", "nothing is changed", "--name back --confirm 1a2b3c")
	w.refuse([]string{"restore", "ec/orders", "--name", "back", "--confirm", "ffffff"}, "the plan is 1a2b3c now")
	w.refuse([]string{"restore", "ec/other", "--name", "back"}, "is of EtcdCluster orders")
	w.want([]string{"restore", "ec/orders", "--name", "back", "--confirm", "1a2b3c"}, "EtcdCluster orders is restored: revision 43")
	w.want([]string{"restore", "ec/orders", "--name", "back"}, "is restored")

	// A person is asked.
	if out, said, err := w.run("no\n", "restore", "ec/orders", "--backup", "b", "--name", "second"); err != nil || !strings.Contains(said, "nothing is changed") {
		t.Errorf("refused: %v\n%s%s", err, out, said)
	}
	if out, said, err := w.run("1a2b3c\n", "restore", "ec/orders", "--name", "second"); err != nil || !strings.Contains(out, "is restored") {
		t.Errorf("confirmed: %v\n%s%s", err, out, said)
	}
}

func TestWhatIsGoneBeforeItIsWatchedIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	var said bytes.Buffer
	s := newSession(streams{out: &said, err: &said})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, list := range []client.ObjectList{&v1alpha1.BackupList{}, &corev1.PodList{}} {
		err := s.follow(ctx, w.client, list, client.ObjectKey{Namespace: w.ns, Name: "gone"}, func(client.Object) (string, bool, error) { return "", true, nil })
		if err == nil || !strings.Contains(err.Error(), "gone was deleted meanwhile") {
			t.Errorf("%T: %v", list, err)
		}
	}
}

func TestWordsAreCompletedFromTheCluster(t *testing.T) {
	w := newWorld(t)
	w.orders()
	w.want([]string{"__complete", "-n", w.ns, "status", ""}, "etcdcluster/orders\n")
	w.want([]string{"__complete", "-n", w.ns, "restore", "ec/orders", "--slots", ""}, "All\nLost\n")
	w.want([]string{"__complete", "-n", ""}, w.ns+"\n")
	w.want([]string{"completion", "kubectl"}, "__complete")
	w.want([]string{"completion", "bash"}, "kubectl-quorate")
	w.want([]string{"version"}, "kubectl-quorate dev")
}

// servers are the StatefulSet of a cluster, as far as a client is made from it.
func (w *world) servers(o clusterObject, component, name, image string) {
	w.t.Helper()
	labels := cluster.Selector(o.GetName(), component)
	container := func(name, image string) corev1.Container { return shellContainer(name, image, nil) }
	w.create(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Labels: labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: string(kindOf(o)), Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true),
		}}},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				InitContainers: []corev1.Container{container("gate", "example.com/operator:1")}, Containers: []corev1.Container{container(name, image)},
			}},
		},
	})
}

func TestAClientRunsInARestrictedPodWithoutCredentialsInItsSpecification(t *testing.T) {
	w := newWorld(t)
	o := w.orders()
	w.refuse([]string{"shell", "ec/orders"}, "no servers yet")
	w.servers(o, v1alpha1.ComponentEtcd, etcdmanifests.ContainerEtcd, "example.com/etcd:1")
	template, err := templateOf(t.Context(), w.client, o)
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]shellOptions{"a prompt": {ttl: time.Hour}, "one command": {ttl: time.Hour, args: []string{"get", "--prefix", "/"}, pod: "orders-1"}} {
		pod, err := shellPod(o, template, options, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		shell := pod.Spec.Containers[0]
		if shell.Image != "example.com/etcd:1" || pod.Spec.InitContainers[0].Image != "example.com/operator:1" || shell.Stdin != (len(options.args) == 0) {
			t.Errorf("%s: %+v", name, shell)
		}
		for _, e := range shell.Env {
			if e.ValueFrom != nil || strings.Contains(e.Name, "PASS") {
				t.Errorf("%s: the environment has %+v", name, e)
			}
		}
		if pod.Labels[cluster.LabelManagedBy] == cluster.ManagedBy {
			t.Errorf("%s: the operator would take the pod for one of its own", name)
		}
		command := strings.Join(shell.Command, " ")
		if options.pod != "" && !strings.HasSuffix(command, "--host=orders-1.orders-peers."+w.ns+".svc -- get --prefix /") {
			t.Errorf("%s: %s", name, command)
		}
	}
}

func TestImagesComeFromTheRegistryOfTheOperator(t *testing.T) {
	const registry = "registry.example.com:5000/copies"
	w := newWorld(t)
	s := newSession(streams{})
	s.rules.ExplicitPath = w.kubeconfig
	want := func(o clusterObject, registry string) {
		t.Helper()
		k, err := s.observer(t.Context(), w.client, o)
		if err != nil {
			t.Fatal(err)
		}
		if k.Registry != registry {
			t.Errorf("%s %s: images come from %q, want %q", kindOf(o), o.GetName(), k.Registry, registry)
		}
	}
	orders := w.orders()
	want(orders, "")
	w.servers(orders, v1alpha1.ComponentEtcd, etcdmanifests.ContainerEtcd, registry+"/coreos/etcd:v3.6.15")
	want(orders, registry)
	orders.Spec.Image = ptr.To("registry.example.com/own/coreos/etcd:v3.6.16")
	want(orders, "")

	valkey := v1alpha1.EngineValkey
	for name, tc := range map[string]struct {
		engine *v1alpha1.RedisEngine
		image  string
		want   string
	}{
		"redis":  {image: registry + "/library/redis:8.0.2", want: registry},
		"valkey": {engine: &valkey, image: registry + "/valkey/valkey:8.1.1", want: registry},
		"public": {image: "docker.io/library/redis:8.0.2"},
	} {
		o := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RedisClusterSpec{Engine: tc.engine, Version: "8.1.1", Shards: 3}}
		w.create(o)
		w.servers(o, v1alpha1.ComponentRedis, redismanifests.ContainerServer, tc.image)
		want(o, tc.want)
	}
}

func TestAReportHoldsNoSecret(t *testing.T) {
	const password = "tell-nobody-7Qx"
	w := newWorld(t)
	o := w.orders()
	before := o.DeepCopy()
	o.Annotations = map[string]string{"note": "the password is " + password}
	o.Spec.Template = &v1alpha1.PodTemplate{Env: []v1alpha1.EnvVar{{Name: "LICENSE", Value: "hunter22"}}}
	if err := w.client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orders-connection"}, StringData: map[string]string{"password": password, "host": "orders-client." + w.ns + ".svc.k8s.corp"}})
	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-config", Labels: cluster.Selector("orders", v1alpha1.ComponentEtcd)},
		Data:       map[string]string{"x": "uri: https://root:" + password + "@orders-client"},
	})
	w.create(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: w.ns, Kind: "EtcdCluster", Name: "orders"}, Reason: "Login", Message: "with " + password,
	})
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	w.want([]string{"report", "ec/orders", "--file", file, "--operator-namespace", ""}, "files")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, raw)
	for _, name := range []string{"README.txt", "status.txt", "events.txt", "plans/etcdcluster-orders.txt", "objects/etcdcluster/orders.yaml", "objects/configmap/orders-config.yaml"} {
		if files[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	for name, text := range files {
		if strings.Contains(text, password) || strings.Contains(text, "hunter22") || strings.Contains(name, "secret") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	if !strings.Contains(files["events.txt"], "Login  with "+redacted) {
		t.Errorf("events: %s", files["events.txt"])
	}
	w.refuse([]string{"report", "--file", file}, "exists")
}

func TestAPromotionIsRefusedWithItsCure(t *testing.T) {
	w := newWorld(t)
	w.create(&v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "carts"}, Spec: v1alpha1.RedisClusterSpec{Version: "8.0.2", Mode: ptr.To(v1alpha1.RedisReplicated)}})
	w.orders()
	w.refuse([]string{"promote", "rdc/carts", "carts-0-1"}, "delete the pod of the primary")
	w.refuse([]string{"promote", "ec/orders", "orders-1"}, "the operator has something to do first")
	w.refuse([]string{"promote", "ec/orders"}, "the pod that is to lead")
}
