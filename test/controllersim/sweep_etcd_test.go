package controllersim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/test/fakeapi"
)

// etcdWorkloads are what users do with an EtcdCluster, from nothing to a cluster that is Ready.
var etcdWorkloads = map[string]func(*Etcd){
	"created": (*Etcd).Served,
	"created and changed": func(s *Etcd) {
		s.Served()
		s.Change()
		s.UntilReady()
	},
	"scaled in and out": func(s *Etcd) {
		s.Served()
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
		s.UntilReady()
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
		s.UntilReady()
	},
	"upgraded": func(s *Etcd) {
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
		s.Served()
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
		s.UntilReady()
	},
	"deleted and created again": func(s *Etcd) {
		s.Served()
		s.Recreate()
		s.UntilReady()
	},
	"replaced":            (*Etcd).replaced,
	"fragmented and full": (*Etcd).fragmentedAndFull,
	"stored elsewhere":    (*Etcd).storedElsewhere,
	"hibernated midway":   (*Etcd).hibernatedMidway,
	"restored in place":   (*Etcd).RestoredInPlace,
}

// etcdScenes are the workloads on stages that are guarded.
func etcdScenes() map[string]workload {
	out := map[string]workload{}
	for name, work := range etcdWorkloads {
		out[name] = workload{
			build: func(t *testing.T) scene {
				t.Helper()
				s := newStage(t, Persistent())
				s.Wire.guard = s.guard
				return s
			},
			work: func(s scene) { work(s.(*Etcd)) }, //nolint:forcetypeassert // It was built above.
		}
	}
	out["authority replaced"] = workload{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newTimed(t, Persistent())
			s.Wire.guard = s.guard
			return s
		},
		work: func(s scene) { s.(*TimedEtcd).Rotate() }, //nolint:forcetypeassert // It was built above.
	}
	return out
}

// sweeps are all that goes wrong, one thing at a time.
var sweeps = map[string]struct {
	points func(ending) []point
	// sparse is how many times fewer points there are in a sample.
	sparse int
}{
	"crash":                  {crashes, 6},
	"lost answer":            {lostAnswers, 6},
	"refusal":                {rejections, 60},
	"two operators":          {overtaken, 30},
	"cache of another time":  {travels, 12},
	"cache that is late":     {delays, 30},
	"events that nobody saw": {misses, 6},
	"storm of events":        {storms, 6},
}

// Whatever goes wrong once at any moment, the end is the same as if it had not, and nothing is made or deleted on the way that would not
// have been.
func TestEtcdEndsTheSameWhateverGoesWrongOnce(t *testing.T) {
	t.Parallel()
	for _, c := range combinations(t, etcdScenes()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sweep(t, c.load, c.sparse, c.points)
		})
	}
}

// etcdCast is an EtcdCluster with what can be done to it.
func etcdCast() cast {
	edit := func(change func(*v1alpha1.EtcdClusterSpec)) operation {
		return operation{settings: true, begin: func(s scene) { s.(*Etcd).Edit(change) }} //nolint:forcetypeassert // It was built below.
	}
	on := func(do func(*Etcd)) operation {
		return operation{begin: func(s scene) { do(s.(*Etcd)) }} //nolint:forcetypeassert // It was built below.
	}
	return cast{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newStage(t, Persistent(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chosen"}, Data: map[string][]byte{owned.PasswordKey: []byte("chosen")},
			})
			s.Wire.guard = s.guard
			return s
		},
		ready:   func(s scene) { s.(*Etcd).UntilReady() },                   //nolint:forcetypeassert // It was built above.
		cluster: func(s scene) client.Object { return s.(*Etcd).Cluster() }, //nolint:forcetypeassert // It was built above.
		operations: map[string]operation{
			"created":    on(func(*Etcd) {}),
			"scaled out": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 }),
			"scaled in":  edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 }),
			"upgraded":   edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" }),
			"configured": edit(func(spec *v1alpha1.EtcdClusterSpec) {
				spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
			}),
			"member replaced":  on((*Etcd).spoil),
			"stored elsewhere": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.Size = resource.MustParse("2Gi") }),
			"authority replaced": edit(func(spec *v1alpha1.EtcdClusterSpec) {
				spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: fakeapi.Now}}}
			}),
			"password changed": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("chosen")} }),
			"made again":       on((*Etcd).Recreate),
		},
		takeBack: on(func(s *Etcd) { s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { *spec = Persistent().Spec }) }),
	}
}

// Whatever a user begins while something else is under way, the cluster ends as a new one would that was made so, without his help.
func TestEtcdOperationsMeet(t *testing.T) {
	t.Parallel()
	pairs(t, etcdCast())
}

func TestEtcdIsDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	goodbyes(t, etcdCast())
}
