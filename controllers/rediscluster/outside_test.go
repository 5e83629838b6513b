package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// TestAServiceThatCannotBeMadeStopsNothingInside: a quota of load balancers or node ports is no reason to have no cluster.
func TestAServiceThatCannotBeMadeStopsNothingInside(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	o.Spec.ExternalAccess = &v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort}
	s := newRedisStage(t, o)
	inner := s.API.Client.(client.WithWatch)
	s.API.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if service, ok := o.(*corev1ac.ServiceApplyConfiguration); ok && strings.HasSuffix(*service.Name, "-external") {
				return errors.New("exceeded quota of node ports")
			}
			return c.Apply(ctx, o, opts...)
		},
	})
	for range 60 {
		s.Pass()
	}
	status := s.Cluster().Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) || status.Ready != "6/6" {
		t.Errorf("status %+v", status)
	}
	if !strings.Contains(status.Activity, "exceeded quota of node ports") {
		t.Errorf("activity %q", status.Activity)
	}
	replicas := int32(2)
	o = s.Cluster()
	o.Spec.ReplicasPerShard = &replicas
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		s.Pass()
	}
	if status := s.Cluster().Status; status.Ready != "9/9" {
		t.Errorf("it does not get its replicas: %+v", status)
	}
}

// TestWhatIsReadOutsideHasOneOrder: the first pod behind a Service is the one whose node clients are sent to, and the cache lists pods in
// any order.
func TestWhatIsReadOutsideHasOneOrder(t *testing.T) {
	o := fakeapi.RedisCluster()
	objects := []client.Object{o}
	yes := true
	for i := range 3 {
		ours := owned.ObjectMeta(o, fmt.Sprintf("carts-0-%d", i))
		ours.Labels = manifests.Labels(o)
		pod := &corev1.Pod{ObjectMeta: *ours.DeepCopy()} // Its StatefulSet is yet to adopt it.
		ours.OwnerReferences = []metav1.OwnerReference{{UID: o.UID, Controller: &yes}}
		objects = append(objects, pod, &corev1.Service{ObjectMeta: ours})
	}
	w := fakeapi.New(t, objects...)
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			switch l := list.(type) {
			case *corev1.PodList:
				slices.Reverse(l.Items)
			case *corev1.ServiceList:
				slices.Reverse(l.Items)
			}
			return err
		},
	})
	out, err := New(ownedtest.New(w)).readOutside(t.Context(), o)
	if err != nil || len(out.pods) != 3 || len(out.services) != 3 {
		t.Fatalf("%d pods and %d Services: %v", len(out.pods), len(out.services), err)
	}
	for i := range 3 {
		if want := fmt.Sprintf("carts-0-%d", i); out.pods[i].Name != want || out.services[i].Name != want {
			t.Errorf("pod %s and Service %s, want %s", out.pods[i].Name, out.services[i].Name, want)
		}
	}
}

// TestWhatIsOnlyRenewedKeepsItsNames: while spec.paused is set, a certificate that would expire is issued anew for what it was for.
func TestWhatIsOnlyRenewedKeepsItsNames(t *testing.T) {
	o := fakeapi.RedisCluster()
	c := ownedtest.New(fakeapi.New(t, o))
	now := c.Now()
	c.Now = func() time.Time { return now }
	doors := []model.Door{{Announcement: model.Announcement{Host: "redis.example.com"}}, {Announcement: model.Announcement{Host: "198.51.100.7"}}}
	kind := New(c)
	issue := func(only bool, doors []model.Door) []byte {
		t.Helper()
		want := kind.certificates(o, true, doors)
		want.RenewOnly, want.Servers, want.InUse = only, nil, false
		if err := c.EnsureCertificates(t.Context(), o, want); err != nil {
			t.Fatal(err)
		}
		live, err := c.OwnSecret(t.Context(), o, cluster.ServerTLSSecret(o.Name))
		if err != nil {
			t.Fatal(err)
		}
		return live.Data[corev1.TLSCertKey]
	}
	first := issue(false, doors)
	if got := issue(true, nil); !slices.Equal(got, first) {
		t.Error("it was issued anew though it lasts")
	}
	now = now.Add(clustertls.LeafValidity * 3 / 4)
	second := issue(true, nil)
	if slices.Equal(second, first) {
		t.Error("it was not renewed")
	}
	for _, host := range []string{"redis.example.com", "198.51.100.7", "localhost", "carts-client.default.svc"} {
		if !clustertls.Vouches(second, host) {
			t.Errorf("it is not for %s any more", host)
		}
	}
	if clustertls.Vouches(issue(false, nil), "redis.example.com") {
		t.Error("it is for a host that is not wanted any more")
	}
}

// TestHostsOutsideLeaveTheCertificateAtOnce: each certificate takes a minute and a half to come to the servers, which answer for the hosts of
// several nodes and give them up one after the other.
func TestHostsOutsideLeaveTheCertificateAtOnce(t *testing.T) {
	o := fakeapi.RedisCluster()
	c := ownedtest.New(fakeapi.New(t, o))
	kind := New(c)
	doors := []model.Door{{Announcement: model.Announcement{Host: "198.51.100.7"}}, {Announcement: model.Announcement{Host: "198.51.100.8"}}}
	want := kind.certificates(o, false, doors)
	want.Servers = nil
	if err := c.EnsureCertificates(t.Context(), o, want); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		announced *[]string
		wants     int
	}{
		"a server announces one of them": {&[]string{"198.51.100.8"}, 2},
		"nobody has said yet":            {nil, 2},
		"no server announces any":        {&[]string{}, 0},
	} {
		kind.memory(o).announced.Store(tc.announced)
		if got, err := kind.withFormer(t.Context(), o, nil); err != nil || len(got) != tc.wants {
			t.Errorf("%s: the certificate is for %v besides, %v; want %d", name, got, err, tc.wants)
		}
	}
}
