package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// TestEtcdStorageIsChangedUnderLoad expands the volumes of a cluster in place, and then moves them to smaller ones of another
// StorageClass, while a writer runs.
func TestEtcdStorageIsChangedUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	var growing, other string
	feature := features.New("storage").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			growing, other = s.storageClass(ctx, t, "growing", true), s.storageClass(ctx, t, "other", false)
			c = s.etcdOf(t, "orders", 3, func(spec *v1alpha1.EtcdClusterSpec) {
				spec.Storage.ClassName = ptr.To(growing)
				// One that follows the volume would be rolled out when that has grown.
				spec.Config = &v1alpha1.EtcdConfig{QuotaBackendBytes: ptr.To(resource.MustParse("256Mi"))}
			})
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		})).
		Assess("volumes grow in place", step(func(ctx context.Context, t *testing.T, s *scope) {
			pods, ids := s.incarnations(ctx, t, c), memberIDs(refresh(ctx, t, s, c))
			resizing, stop := context.WithCancel(ctx)
			resized := make(chan error, 1)
			summary := underLoad(ctx, t, s, c, "volumes expanded", func() {
				go func() { resized <- s.resize(resizing, c.Name) }()
				change(ctx, t, s, c, func() { c.Spec.Storage.Size = resource.MustParse("2Gi") })
			})
			stop()
			must(t, <-resized)
			nothingLost(t, summary)
			noErrors(t, summary)
			wantVolumes(ctx, t, s, c, "2Gi", growing)
			if after := s.incarnations(ctx, t, c); after != pods {
				t.Errorf("pods were restarted: %s, then %s", pods, after)
			}
			if after := memberIDs(refresh(ctx, t, s, c)); after != ids {
				t.Errorf("members were replaced: %s, then %s", ids, after)
			}
		})).
		Assess("volumes are replaced by smaller ones of another class", step(func(ctx context.Context, t *testing.T, s *scope) {
			ids := memberIDs(refresh(ctx, t, s, c))
			summary := underLoad(ctx, t, s, c, "volumes of another class", func() {
				change(ctx, t, s, c, func() { c.Spec.Storage.Size, c.Spec.Storage.ClassName = resource.MustParse("1Gi"), ptr.To(other) })
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			wantVolumes(ctx, t, s, c, "1Gi", other)
			wantSize(ctx, t, s, c, 3)
			checkMarks(ctx, t, s, c)
			for id := range strings.FieldsSeq(ids) {
				if strings.Contains(memberIDs(refresh(ctx, t, s, c)), id) {
					t.Errorf("member %s was not replaced", id)
				}
			}
		}))
	suite.Test(t, feature.Feature())
}

// TestTheStorageOfTheOnlyMember is refused to move, until there are others to hold the data meanwhile.
func TestTheStorageOfTheOnlyMember(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	var other string
	feature := features.New("storage of one member").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			other = s.storageClass(ctx, t, "other", false)
			c = s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		})).
		Assess("it does not move", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := s.incarnations(ctx, t, c)
			change(ctx, t, s, c, func() { c.Spec.Storage.ClassName = ptr.To(other) })
			must(t, harness.WaitCondition(ctx, s.Cluster, c, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: "True"}, time.Minute))
			text := conditionText(c, v1alpha1.ConditionStalled)
			figure(t, "refused: %s", text)
			if !strings.Contains(text, "set spec.size to 3") {
				t.Errorf("the refusal does not name the cure: %s", text)
			}
			if after := s.incarnations(ctx, t, c); after != before {
				t.Errorf("the pod was restarted: %s, then %s", before, after)
			}
			checkMarks(ctx, t, s, c)
		})).
		Assess("it moves by way of three members", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "only member moved to another class", func() {
				scale(ctx, t, s, c, 3)
				waitReady(ctx, t, s, c)
				wantVolumes(ctx, t, s, c, "1Gi", other)
				scale(ctx, t, s, c, 1)
			})
			nothingLost(t, summary)
			wantSize(ctx, t, s, c, 1)
			wantVolumes(ctx, t, s, c, "1Gi", other)
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// storageClass makes a class of volumes that goes with the test, with the provisioner of the default one.
func (s *scope) storageClass(ctx context.Context, t *testing.T, name string, expandable bool) string {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.ns + "-" + name}, Provisioner: "rancher.io/local-path",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: &expandable,
	}
	s.create(ctx, t, class)
	t.Cleanup(func() {
		if err := s.Delete(context.WithoutCancel(ctx), class); err != nil {
			t.Errorf("delete StorageClass %s: %v", class.Name, err)
		}
	})
	return class.Name
}

// resize plays the part of a CSI resizer until the context ends: kind's provisioner cannot expand a volume, whose size is but a
// number there. It does what a driver does that expands volumes online: the volume first, then the claim.
func (s *scope) resize(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		var claims corev1.PersistentVolumeClaimList
		if err := s.List(ctx, &claims, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: name}); err != nil {
			return client.IgnoreNotFound(ignoreEnd(ctx, err))
		}
		for i := range claims.Items {
			if err := s.resizeClaim(ctx, &claims.Items[i]); err != nil {
				return ignoreEnd(ctx, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *scope) resizeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Capacity == nil || wanted.Cmp(claim.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		return nil
	}
	volume := &corev1.PersistentVolume{}
	if err := s.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return err
	}
	before := volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = wanted
	if err := s.Patch(ctx, volume, client.MergeFrom(before)); err != nil {
		return err
	}
	was := claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = wanted
	return s.Status().Patch(ctx, claim, client.MergeFrom(was))
}

// incarnations tells apart what has run in the pods of a cluster.
func (s *scope) incarnations(ctx context.Context, t *testing.T, c *v1alpha1.EtcdCluster) string {
	t.Helper()
	var out strings.Builder
	for _, p := range s.pods(ctx, t, c) {
		out.WriteString(p.Name + " " + string(p.UID))
		for _, status := range p.Status.ContainerStatuses {
			out.WriteString(" " + status.ContainerID)
		}
		out.WriteString("; ")
	}
	return out.String()
}

func memberIDs(c *v1alpha1.EtcdCluster) string {
	var ids []string
	for _, m := range c.Status.Members {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

// wantVolumes checks the size and the class of every volume of a cluster.
func wantVolumes(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, size, class string) {
	t.Helper()
	var claims corev1.PersistentVolumeClaimList
	must(t, s.List(ctx, &claims, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	for _, claim := range claims.Items {
		if got := claim.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse(size)) != 0 || ptr.Deref(claim.Spec.StorageClassName, "") != class {
			t.Errorf("%s has %s of class %s instead of %s of %s", claim.Name, got.String(), ptr.Deref(claim.Spec.StorageClassName, ""), size, class)
		}
	}
	if len(claims.Items) != int(refresh(ctx, t, s, c).Spec.Size) {
		t.Errorf("there are %d claims", len(claims.Items))
	}
}
