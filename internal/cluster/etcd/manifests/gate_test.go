package manifests_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/etcdtest"
	"github.com/quorate/quorate/test/lockdown"
)

// gateMounts are the Secrets that the start gate gets at, by where they are.
func gateMounts(set *appsv1.StatefulSet) map[string]string {
	secrets, out := map[string]string{}, map[string]string{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			secrets[v.Name] = v.Secret.SecretName
		}
	}
	for _, m := range set.Spec.Template.Spec.InitContainers[0].VolumeMounts {
		if name := secrets[m.Name]; name != "" && strings.HasPrefix(m.MountPath, "/") {
			out[m.MountPath] = name
		}
	}
	return out
}

func TestPodsGetAtTheBackupOnlyWhileTheyAreRestored(t *testing.T) {
	empty := statefulSet(t, builder(t, nil))
	restored := func(change func(*manifests.Builder)) *appsv1.StatefulSet {
		return statefulSet(t, builder(t, func(b *manifests.Builder) {
			b.Record.Restore = etcdtest.Restore()
			if change != nil {
				change(b)
			}
		}))
	}
	during, after := restored(nil), restored(func(b *manifests.Builder) { b.Record.ClusterID = 7 })
	got, want := gateMounts(during), gateMounts(empty)
	want[job.CredentialsDir], want[job.KeysDir], want[job.AccessAuthDir] = "s3", "age", cluster.AuthSecret("orders")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while it restores (-want +got):\n%s", diff)
	}
	if got := during.Spec.Template.Spec.ServiceAccountName; got != "backup" {
		t.Errorf("it runs as %q", got)
	}
	if got := lockdown.WithToken(during.Spec.Template.Spec); !slices.Equal(got, []string{manifests.ContainerGate}) {
		t.Errorf("the containers %v have a token", got)
	}
	for _, c := range during.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if m.MountPath == job.CredentialsDir || m.MountPath == job.KeysDir {
				t.Errorf("%s gets at %s", c.Name, m.MountPath)
			}
		}
	}
	hash := func(set *appsv1.StatefulSet) string {
		return set.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	}
	if hash(during) == hash(empty) || hash(after) != hash(empty) || hash(empty) == "" {
		t.Errorf("members keep the account: %s, %s, %s", hash(empty), hash(during), hash(after))
	}
	without := restored(func(b *manifests.Builder) { b.Record.Restore.Destination.ServiceAccountName = nil })
	if hash(without) != hash(empty) {
		t.Errorf("members would be restarted for a backup without an account: %s, %s", hash(empty), hash(without))
	}
	alone := func(b *manifests.Builder) { b.Storage, b.Record.Members = nil, b.Record.Members[:1] }
	if single := restored(alone); hash(single) != hash(statefulSet(t, builder(t, alone))) || single.Spec.Template.Spec.ServiceAccountName != "backup" {
		t.Errorf("the only member, without a volume, would be restarted and lose its data, or runs as %q", single.Spec.Template.Spec.ServiceAccountName)
	}
	later := restored(func(b *manifests.Builder) { b.Record.ClusterID = 7 })
	if diff := cmp.Diff(statefulSet(t, builder(t, func(b *manifests.Builder) { b.Record.ClusterID = 7 })).Spec, later.Spec); diff != "" {
		t.Errorf("once it is founded, something of it stays (-want +got):\n%s", diff)
	}
}

func TestTheGateSwitchesAuthenticationOffWhereTheSpecHasNone(t *testing.T) {
	disabled := func(b *manifests.Builder) {
		b.SigningSum, b.Cluster.Spec.Auth = "", &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)}
	}
	for name, tc := range map[string]struct {
		change func(*manifests.Builder)
		want   bool
	}{
		"a restore with Disabled": {func(b *manifests.Builder) { b.Record.Restore = etcdtest.Restore(); disabled(b) }, true},
		"a restore with Password": {func(b *manifests.Builder) { b.Record.Restore = etcdtest.Restore() }, false},
		"no restore, Disabled":    {disabled, false},
		"after a restore, Disabled": {func(b *manifests.Builder) {
			b.SigningSum, b.Record.Restore, b.Record.ClusterID = "", etcdtest.Restore(), 7
		}, false},
	} {
		gate := statefulSet(t, builder(t, tc.change)).Spec.Template.Spec.InitContainers[0]
		if got := slices.Contains(gate.Args, "--"+manifests.FlagWithoutAuthentication); got != tc.want {
			t.Errorf("%s: %v", name, gate.Args)
		}
	}
}

func TestTheGateAlwaysHasAMemoryLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		resources *corev1.ResourceRequirements
		want      string
	}{
		"without spec.resources": {nil, "1Gi"},
		"with requests only":     {&corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}, "2Gi"},
		"with a limit":           {&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}}, "4Gi"},
	} {
		for what, restore := range map[string]*model.Restore{"that restores": etcdtest.Restore(), "that restores nothing": nil} {
			set := statefulSet(t, builder(t, func(b *manifests.Builder) {
				b.Record.Restore, b.Cluster.Spec.Resources = restore, tc.resources
			}))
			gate := set.Spec.Template.Spec.InitContainers[0]
			if got := gate.Resources.Limits.Memory(); got.String() != tc.want || gate.Resources.Requests.Memory().Cmp(*got) > 0 {
				t.Errorf("a gate %s, %s: %+v", what, name, gate.Resources)
			}
			if !slices.ContainsFunc(gate.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" }) {
				t.Errorf("the runtime of a gate %s, %s, does not know its limit", what, name)
			}
		}
	}
}

func TestAClaimWithABackupIsMountedForTheGate(t *testing.T) {
	set := statefulSet(t, builder(t, func(b *manifests.Builder) {
		b.Record.Restore = etcdtest.Restore()
		b.Record.Restore.Destination = v1alpha1.BackupDestination{URL: "pvc://backups/orders"}
	}))
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "backups" {
			return
		}
	}
	t.Errorf("%+v", set.Spec.Template.Spec.Volumes)
}
