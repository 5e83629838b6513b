package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/kube"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/etcdtest"
	"github.com/quorate/quorate/test/golden"
	"github.com/quorate/quorate/test/lockdown"
)

func builder(t *testing.T, change func(*manifests.Builder)) manifests.Builder {
	t.Helper()
	b := manifests.Builder{
		Cluster: &v1alpha1.EtcdCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "u-1"},
			Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16"},
		},
		Version:    etcdtest.Version(t, "3.6.16"),
		Target:     etcdtest.Version(t, "3.6.16"),
		Record:     model.Record{Bootstrap: model.BootstrapNew, Version: etcdtest.Version(t, "3.6.16"), Members: model.Peers("orders", "shop", "cluster.local", 3, true)},
		Storage:    &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		Domain:     "cluster.local",
		AgentImage: "quorate/operator:1", SigningSum: "t-1", TrustSum: "a-1", ServerSecret: "orders-server-tls", PeerSecret: "orders-peer-tls",
		Owner: kube.Owner("quorate.dev/v1alpha1", "EtcdCluster", "orders", "u-1"),
	}
	var err error
	if b.Common, err = config.Common(nil, b.Version, b.Version); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&b)
	}
	return b
}

func statefulSet(t *testing.T, b manifests.Builder) *appsv1.StatefulSet {
	t.Helper()
	ac, err := b.StatefulSet()
	if err != nil {
		t.Fatal(err)
	}
	set, err := kube.Convert[appsv1.StatefulSet](ac)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTheStatefulSetOnlyMakesPods(t *testing.T) {
	set := statefulSet(t, builder(t, nil))
	if *set.Spec.Replicas != 3 || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement ||
		set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || set.Spec.ServiceName != "orders-peers" {
		t.Errorf("%+v", set.Spec)
	}
	want := &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"}
	if diff := cmp.Diff(want, set.Spec.PersistentVolumeClaimRetentionPolicy); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	deleting := statefulSet(t, builder(t, func(b *manifests.Builder) { b.Storage.DeletionPolicy = ptr.To(v1alpha1.DeletionDelete) }))
	want.WhenDeleted = "Delete"
	if diff := cmp.Diff(want, deleting.Spec.PersistentVolumeClaimRetentionPolicy); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodsOfMembersAreLockedDown(t *testing.T) {
	for name, change := range map[string]func(*manifests.Builder){
		"with everything": nil,
		"without storage": func(b *manifests.Builder) { b.Storage = nil },
		"plain":           func(b *manifests.Builder) { b.ServerSecret, b.PeerSecret, b.SigningSum = "", "", "" },
		"from a backup":   func(b *manifests.Builder) { b.Record.Restore = etcdtest.Restore() },
		"with a user's": func(b *manifests.Builder) {
			b.Cluster.Spec.Template = &v1alpha1.PodTemplate{SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}}
		},
		"with an image":    func(b *manifests.Builder) { b.Cluster.Spec.Image = ptr.To("example.com/etcd:v3.6.16") },
		"with a registry":  func(b *manifests.Builder) { b.Registry = "registry.example.com:5000/copies" },
		"of a former etcd": func(b *manifests.Builder) { b.Version = etcdtest.Version(t, "3.5.35") },
	} {
		pod := statefulSet(t, builder(t, change)).Spec.Template.Spec
		for _, fault := range lockdown.Faults(lockdown.Pod{Spec: pod, Serves: true, Identity: name == "from a backup"}) {
			t.Errorf("%s: %s", name, fault)
		}
		if *pod.EnableServiceLinks {
			t.Errorf("%s: the pod gets the addresses of all Services of its namespace", name)
		}
	}
}

func TestEphemeralMembersHaveNoClaims(t *testing.T) {
	set := statefulSet(t, builder(t, func(b *manifests.Builder) { b.Storage = nil }))
	if len(set.Spec.VolumeClaimTemplates) != 0 || set.Spec.PersistentVolumeClaimRetentionPolicy != nil {
		t.Errorf("%+v", set.Spec.VolumeClaimTemplates)
	}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Name == cluster.VolumeData && v.EmptyDir != nil {
			return
		}
	}
	t.Error("there is no data volume")
}

func TestTheGateHasResourcesLikeItsMember(t *testing.T) {
	set := statefulSet(t, builder(t, func(b *manifests.Builder) {
		b.Cluster.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	}))
	if got := set.Spec.Template.Spec.InitContainers[0].Resources.Limits.Memory().String(); got != "1Gi" {
		t.Errorf("a quota on limits refuses its pod: the gate has a limit of %s", got)
	}
}

func hash(t *testing.T, b manifests.Builder) string {
	t.Helper()
	h, err := b.TemplateHash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// An operator upgrade must restart no pod, and neither must what changes while a cluster comes to life.
func TestWhatRestartsMembers(t *testing.T) {
	before := hash(t, builder(t, nil))
	annotated := statefulSet(t, builder(t, nil)).Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	if annotated != before {
		t.Errorf("pods carry %q instead of %q", annotated, before)
	}
	for name, tc := range map[string]struct {
		change   func(*manifests.Builder)
		restarts bool
	}{
		"another image of the operator": {func(b *manifests.Builder) { b.AgentImage = "quorate/operator:2" }, false},
		"the cluster id":                {func(b *manifests.Builder) { b.Record.ClusterID = 7 }, false},
		"another deletion policy":       {func(b *manifests.Builder) { b.Storage.DeletionPolicy = ptr.To(v1alpha1.DeletionDelete) }, false},
		"another set of authorities":    {func(b *manifests.Builder) { b.TrustSum = "a-2" }, true},
		"larger volumes":                {func(b *manifests.Builder) { b.Storage.Size = resource.MustParse("2Gi") }, true},
		"larger volumes that are to come": {func(b *manifests.Builder) {
			b.Storage.Size, b.Smallest = resource.MustParse("2Gi"), 1<<30
		}, false},
		"a volume that is larger than asked for": {func(b *manifests.Builder) { b.Smallest = 2 << 30 }, false},
		"another StorageClass":                   {func(b *manifests.Builder) { b.Storage.ClassName = ptr.To("fast") }, false},
		"another patch version":                  {func(b *manifests.Builder) { b.Version.Patch++ }, true},
		"another configuration":                  {func(b *manifests.Builder) { b.Common["log-level"] = "debug" }, true},
		"resources": {func(b *manifests.Builder) {
			b.Cluster.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
		}, true},
		"a toleration": {func(b *manifests.Builder) {
			b.Cluster.Spec.Template = &v1alpha1.PodTemplate{Tolerations: []v1alpha1.Toleration{{Key: ptr.To(v1alpha1.LabelKey("k")), Operator: ptr.To(corev1.TolerationOpExists)}}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if after := hash(t, builder(t, tc.change)); (after != before) != tc.restarts {
				t.Errorf("%s, then %s", before, after)
			}
		})
	}
}

// The quota of a large volume is etcd's own, so that a larger one needs no restart.
func TestALargeVolumeThatGrowsRestartsNobody(t *testing.T) {
	of := func(size string) string {
		return hash(t, builder(t, func(b *manifests.Builder) { b.Storage.Size = resource.MustParse(size) }))
	}
	if of("4480Mi") != of("1Ti") || of("4479Mi") == of("4480Mi") {
		t.Errorf("4479Mi: %s, 4480Mi: %s, 1Ti: %s", of("4479Mi"), of("4480Mi"), of("1Ti"))
	}
}

// The hash of a given specification is part of the contract between releases: if it changes, an operator upgrade
// restarts every member of every cluster. Change it only with a reason for the release notes.
func TestTheHashOfARelease(t *testing.T) {
	golden.Check(t, "template-hash", hash(t, builder(t, nil))+"\n")
}

func TestTheBudgetKeepsWhatTheRecordSays(t *testing.T) {
	b := builder(t, func(b *manifests.Builder) { b.Record.MinAvailable = 3 })
	pdb, err := kube.Convert[policyv1.PodDisruptionBudget](b.DisruptionBudget())
	if err != nil {
		t.Fatal(err)
	}
	if got := pdb.Spec.MinAvailable.IntValue(); got != 3 || *pdb.Spec.UnhealthyPodEvictionPolicy != policyv1.IfHealthyBudget {
		t.Errorf("%+v", pdb.Spec)
	}
	if diff := cmp.Diff(manifests.Selector("orders"), pdb.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAClusterThatHibernatesHasNoPodsAndTheSameTemplate(t *testing.T) {
	awake := statefulSet(t, builder(t, nil))
	asleep := statefulSet(t, builder(t, func(b *manifests.Builder) { b.Record.Hibernated = true }))
	if *asleep.Spec.Replicas != 0 {
		t.Errorf("%d replicas", *asleep.Spec.Replicas)
	}
	if diff := cmp.Diff(awake.Spec.Template, asleep.Spec.Template); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMembersSpreadOverZonesUnlessTheUserSaysHow(t *testing.T) {
	spread := statefulSet(t, builder(t, nil)).Spec.Template.Spec.TopologySpreadConstraints
	want := []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: manifests.Selector("orders")},
	}}
	if diff := cmp.Diff(want, spread); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	own := statefulSet(t, builder(t, func(b *manifests.Builder) {
		b.Cluster.Spec.Template = &v1alpha1.PodTemplate{TopologySpreadConstraints: []v1alpha1.TopologySpreadConstraint{
			{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule},
		}}
	})).Spec.Template.Spec
	if c := own.TopologySpreadConstraints; len(c) != 1 || c[0].TopologyKey != "rack" {
		t.Errorf("%+v", c)
	}
	if own.Affinity.PodAntiAffinity == nil {
		t.Error("the members do not avoid each other's nodes")
	}
}

func TestCertificatesCoverEveryNameOfAClient(t *testing.T) {
	leafs := manifests.Leafs("orders", "shop", "example.org")
	for _, name := range []string{
		"orders-client", "orders-client.shop", "orders-client.shop.svc", "orders-client.shop.svc.example.org", "localhost",
		"*.orders-peers.shop.svc", "*.orders-peers.shop.svc.example.org",
	} {
		if !strings.Contains(strings.Join(leafs["orders-server-tls"].DNSNames, " ")+" ", name+" ") {
			t.Errorf("the server's certificate lacks %s", name)
		}
	}
	for secret, cn := range map[string]string{
		"orders-operator-tls": "root", "orders-client-tls": "client", "orders-peer-tls": "quorate-peer",
	} {
		if leafs[secret].CommonName != cn {
			t.Errorf("%s is %s", secret, leafs[secret].CommonName)
		}
	}
	if leafs["orders-client-tls"].DNSNames != nil || leafs["orders-operator-tls"].DNSNames != nil {
		t.Error("a client's certificate has names, which etcd would compare with its address")
	}
}

func TestTheConnectionSecret(t *testing.T) {
	b := builder(t, nil)
	keys := func(data map[string][]byte) map[string]string {
		out := map[string]string{}
		for k, v := range data {
			out[k] = string(v)
		}
		return out
	}
	want := map[string]string{
		"type": "etcd", "provider": "quorate", "host": "orders-client.shop.svc.cluster.local", "port": "2379",
		"uri": "https://orders-client.shop.svc.cluster.local:2379", "username": "root", "password": "secret",
		"ca.crt": "CA", "tls.crt": "C", "tls.key": "K",
	}
	got := keys(b.Connection("secret", []byte("CA"), clustertls.Pair{Cert: []byte("C"), Key: []byte("K")}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = map[string]string{
		"type": "etcd", "provider": "quorate", "host": "orders-client.shop.svc.cluster.local", "port": "2379",
		"uri": "http://orders-client.shop.svc.cluster.local:2379",
	}
	if diff := cmp.Diff(want, keys(b.Connection("", nil, clustertls.Pair{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheConfigMapNamesEveryMember(t *testing.T) {
	b := builder(t, func(b *manifests.Builder) { b.InUse = []model.Version{etcdtest.Version(t, "3.5.35")} })
	data, err := b.ConfigData(b.Record)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bootstrap", "cluster-id", "members", "orders-0.3.6.16.yaml", "orders-1.3.6.16.yaml", "orders-2.3.5.35.yaml"} {
		if _, ok := data[key]; !ok {
			t.Errorf("there is no %s", key)
		}
	}
	if !strings.Contains(data["orders-0.3.6.16.yaml"], "quota-backend-bytes: 335544320") {
		t.Errorf("the size of the volume is not heeded: %s", data["orders-0.3.6.16.yaml"])
	}
	raw, err := json.Marshal(data)
	if err != nil || !strings.Contains(data["orders-2.3.6.16.yaml"], "initial-cluster-token: shop-orders-u-1") {
		t.Errorf("%v: %s", err, raw)
	}
}
