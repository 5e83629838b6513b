package job

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/lockdown"
)

// everything is work with all that there may be about it.
func everything(change func(*Work)) Work {
	w := Work{
		Name: "nightly-take", Namespace: "shop", Labels: Labels("nightly", "orders"), Image: "agent:1", Args: []string{"backup", "etcd"}, Limit: time.Hour,
		Owner: metav1ac.OwnerReference().WithName("nightly").WithUID("u-1"),
		Destination: v1alpha1.BackupDestination{
			URL: "s3://bucket/prefix?region=eu-west-1", Credentials: &v1alpha1.SecretReference{Name: "keys-of-s3"},
			Encryption: &v1alpha1.SecretReference{Name: "keys-of-age"}, ServiceAccountName: ptr.To("backup"),
		},
		Access: &Access{
			Args: []string{"--members=a"}, TLSSecret: "orders-tls", AuthSecret: "orders-auth", AuthKeys: []string{"password"},
			Template: &v1alpha1.PodTemplate{NodeSelector: map[string]v1alpha1.LabelValue{"zone": "a"}, Env: []v1alpha1.EnvVar{{Name: "SECRET", Value: "hunter2"}}},
		},
		Scratch: true,
	}
	if change != nil {
		change(&w)
	}
	return w
}

// podOf is the pod of a Job, as Kubernetes reads it.
func podOf(t *testing.T, w Work) corev1.PodTemplateSpec {
	t.Helper()
	job, err := w.Job()
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, job.Spec.Template)
}

func decoded(t *testing.T, ac *corev1ac.PodTemplateSpecApplyConfiguration) (out corev1.PodTemplateSpec) {
	t.Helper()
	raw, err := json.Marshal(ac)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPodsOfJobsAreLockedDown(t *testing.T) {
	for name, w := range map[string]Work{
		"all":           everything(nil),
		"none":          {Owner: metav1ac.OwnerReference(), Name: "a", Namespace: "b", Labels: Labels("a", "c"), Image: "agent:1", Destination: v1alpha1.BackupDestination{URL: "gs://bucket"}},
		"with a server": everything(func(w *Work) { w.Server, w.Memory = "example.com/etcd:v3.6.16", 1<<30 }),
		"on a claim":    everything(func(w *Work) { w.Destination = v1alpha1.BackupDestination{URL: "pvc://backups/a"} }),
	} {
		set, err := w.StatefulSet()
		if err != nil {
			t.Fatal(err)
		}
		for what, pod := range map[string]corev1.PodTemplateSpec{"Job": podOf(t, w), "StatefulSet": decoded(t, set.Spec.Template)} {
			// Nobody asks it for anything, so that it has no probes; it ends by itself when it cannot go on.
			p := lockdown.Pod{Spec: pod.Spec, Sized: true, Identity: w.Destination.ServiceAccountName != nil}
			for _, fault := range lockdown.Faults(p) {
				t.Errorf("%s of %s: %s", what, name, fault)
			}
		}
	}
}

func TestTheTokenOfAServiceAccountIsThereWhereItIsAskedFor(t *testing.T) {
	pod := podOf(t, everything(func(w *Work) { w.Server, w.Memory = "example.com/etcd:v3.6.16", 1<<30 }))
	if pod.Spec.ServiceAccountName != "backup" || ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) {
		t.Errorf("%s %v", pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken)
	}
	if got := lockdown.WithToken(pod.Spec); !slices.Equal(got, []string{Container}) {
		t.Errorf("the containers %v have a token", got)
	}
	pod = podOf(t, everything(func(w *Work) { w.Destination.ServiceAccountName = nil }))
	if pod.Spec.ServiceAccountName != "" || ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) {
		t.Errorf("%s %v", pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken)
	}
}

// Secrets are mounted: what is in arguments or the environment, everybody can read who may look at pods.
func TestSecretsAreMountedAndNothingElseOfThem(t *testing.T) {
	pod := podOf(t, everything(nil))
	c := pod.Spec.Containers[0]
	want := []string{"backup", "etcd", "--url=s3://bucket/prefix?region=eu-west-1", "--credentials-dir=/credentials", "--keys-dir=/keys"}
	if diff := cmp.Diff(want, c.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" || e.ValueFrom == nil || e.ValueFrom.ResourceFieldRef == nil {
			t.Errorf("environment %+v", e)
		}
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	got := map[string]string{}
	for _, m := range c.VolumeMounts {
		if s := volumes[m.Name].Secret; s != nil {
			got[m.MountPath] = s.SecretName
			if !m.ReadOnly {
				t.Errorf("%s can be written to", m.MountPath)
			}
			if keys := s.Items; s.SecretName == "orders-auth" && (len(keys) != 1 || keys[0].Key != "password") {
				t.Errorf("of the passwords it gets %v", keys)
			}
		}
	}
	all := map[string]string{CredentialsDir: "keys-of-s3", KeysDir: "keys-of-age", AccessTLSDir: "orders-tls", AccessAuthDir: "orders-auth"}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if volumes[volumeScratch].EmptyDir == nil {
		t.Error("there is no room for a check")
	}
}

func TestPodsGoWhereThoseOfTheClusterMay(t *testing.T) {
	if got := podOf(t, everything(nil)).Spec.NodeSelector["zone"]; got != "a" {
		t.Errorf("zone %q", got)
	}
	if got := podOf(t, everything(func(w *Work) { w.Access = nil })).Spec.NodeSelector; len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestAClaimIsMountedWhereTheAgentLooks(t *testing.T) {
	for raw, want := range map[string][3]string{
		"pvc://backups/orders/etcd":  {"backups", "orders/etcd", "file:///backups/orders/etcd"},
		"pvc://backups":              {"backups", "", "file:///backups"},
		"pvc://backups/":             {"backups", "", "file:///backups"},
		"pvc://backups/a/":           {"backups", "a", "file:///backups/a"},
		"s3://bucket/prefix?region=": {"", "", "s3://bucket/prefix?region="},
		"gs://bucket":                {"", "", "gs://bucket"},
		"":                           {"", "", ""},
		"://":                        {"", "", "://"},
	} {
		claim, dir := Claim(raw)
		if got := [3]string{claim, dir, AgentURL(raw)}; got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	pod := podOf(t, everything(func(w *Work) { w.Destination = v1alpha1.BackupDestination{URL: "pvc://backups/orders"} }))
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	if i < 0 || pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName != "backups" {
		t.Fatalf("%+v", pod.Spec.Volumes)
	}
	c := pod.Spec.Containers[0]
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == StoreDir && !m.ReadOnly }) {
		t.Errorf("%+v", c.VolumeMounts)
	}
	if !slices.Contains(c.Args, "--url=file:///backups/orders") || strings.Contains(strings.Join(c.Args, " "), "--credentials-dir") {
		t.Errorf("%v", c.Args)
	}
}

func TestResourcesAreThoseOfTheUser(t *testing.T) {
	want := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	got := podOf(t, everything(func(w *Work) { w.Resources = &want })).Spec.Containers[0].Resources
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAJobEndsOnceAndForAll(t *testing.T) {
	job, err := everything(nil).Job()
	if err != nil {
		t.Fatal(err)
	}
	s := job.Spec
	if *s.ActiveDeadlineSeconds != 3600 || *s.TTLSecondsAfterFinished != 3600 || *s.BackoffLimit != tries || *s.PodReplacementPolicy != "Failed" {
		t.Errorf("%+v", s)
	}
	rules := s.PodFailurePolicy.Rules
	if len(rules) != 2 || *rules[0].Action != "Ignore" || *rules[1].Action != "FailJob" || !slices.Equal(rules[1].OnExitCodes.Values, []int32{ExitFinal}) {
		t.Errorf("an eviction is no failure, and a final one ends it: %+v", rules)
	}
	if *job.OwnerReferences[0].Name != "nightly" || *s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", job)
	}
}

func TestTheRecorderIsOnePodThatRunsAllTheTime(t *testing.T) {
	w := everything(func(w *Work) { w.Labels = ScheduleLabels("nightly", "orders") })
	set, err := w.StatefulSet()
	if err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 1 || *set.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("%+v", set.Spec)
	}
	for k, v := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[k] != v || Labels("nightly", "orders")[k] == v && k == "app.kubernetes.io/component" {
			t.Errorf("it selects %s=%s, which pods of other work have, or its own have not", k, v)
		}
	}
	if len(set.Spec.Selector.MatchLabels) < 2 {
		t.Errorf("%v", set.Spec.Selector.MatchLabels)
	}
}

// A check in the image of the data store has the agent, and what it trusts, from the operator's image; the server has the memory.
func TestACheckRunsInTheImageOfTheDataStore(t *testing.T) {
	in := func(image string, of Stored) corev1.PodTemplateSpec {
		return podOf(t, everything(func(w *Work) {
			w.Access.TLSSecret, w.Access.AuthSecret = "", ""
			*w = w.InServer(image, of)
		}))
	}
	pod := in("etcd:3.6.16", Stored{Memory: 1 << 30})
	c, install := pod.Spec.Containers[0], pod.Spec.InitContainers[0]
	if c.Image != "etcd:3.6.16" || install.Image != "agent:1" || !slices.Equal(c.Command, []string{"/tools/agent"}) || !slices.Contains(c.Args, "--with-server") {
		t.Errorf("%s %v %v after %s", c.Image, c.Command, c.Args, install.Image)
	}
	if want := []string{"install", "--dir=/tools"}; !slices.Equal(install.Args, want) {
		t.Errorf("%v", install.Args)
	}
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" && e.Value != "134217728" {
			t.Errorf("the agent may use what the server needs: %+v", e)
		}
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == "SSL_CERT_FILE" && e.Value == "/tools/ca-certificates.crt"
	}) {
		t.Errorf("%+v", c.Env)
	}
	if limit, request := c.Resources.Limits.Memory(), c.Resources.Requests.Memory(); limit.String() != "1344Mi" || request.String() != "672Mi" {
		t.Errorf("%s of %s", request, limit)
	}
	for _, one := range []corev1.Container{c, install} {
		if sc := one.SecurityContext; !ptr.Deref(sc.ReadOnlyRootFilesystem, false) || ptr.Deref(sc.AllowPrivilegeEscalation, true) || one.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: %+v", one.Name, one)
		}
	}
	for _, m := range install.VolumeMounts {
		if m.Name != volumeTools {
			t.Errorf("what only copies a program has %s", m.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if m.Name == volumeTLS || m.Name == volumeAuth || (m.Name == volumeTools && !m.ReadOnly) {
			t.Errorf("the check has %+v", m)
		}
	}
	if pod := in("", Stored{Memory: 1 << 30}); len(pod.Spec.InitContainers) > 0 || pod.Spec.Containers[0].Image != "agent:1" || pod.Spec.Containers[0].Resources.Limits.Memory().String() != "128Mi" {
		t.Errorf("without an image of a server: %+v", pod.Spec)
	}
}

func TestAServerGetsTheMemoryThatItsDataNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		of   Stored
		want string
	}{
		"nothing":                   {Stored{}, "320Mi"},
		"a little":                  {Stored{Memory: 1}, "321Mi"},
		"the largest of its shards": {Stored{Size: 100 << 30, Memory: 3 << 30}, "3392Mi"},
		"one that tells no parts":   {Stored{Size: 1 << 30, Keys: 1 << 20}, "3520Mi"},
	} {
		pod := podOf(t, everything(func(w *Work) { *w = w.InServer("redis:8", tc.of) }))
		if got := pod.Spec.Containers[0].Resources.Limits.Memory().String(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	want := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("7Gi")}}
	pod := podOf(t, everything(func(w *Work) {
		w.Resources = &want
		*w = w.InServer("redis:8", Stored{Memory: 1 << 40})
	}))
	if diff := cmp.Diff(want, pod.Spec.Containers[0].Resources); diff != "" {
		t.Errorf("what the user says counts (-want +got):\n%s", diff)
	}
}
