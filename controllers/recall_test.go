package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// recallStage counts how often Secrets are read from an API server that has one of ours and one of a user.
type recallStage struct {
	*recall
	api   client.WithWatch
	reads int
	later time.Duration
	// meanwhile happens while a Secret is being read.
	meanwhile func()
}

var ours, theirs = client.ObjectKey{Namespace: "default", Name: "ours"}, client.ObjectKey{Namespace: "default", Name: "theirs"}

func newRecallStage(t *testing.T) *recallStage {
	t.Helper()
	secret := func(key client.ObjectKey, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels}, Data: map[string][]byte{"k": []byte("1")}}
	}
	w := newWorld(t, secret(ours, map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}), secret(theirs, nil))
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	s := &recallStage{api: inner, meanwhile: func() {}}
	counting := interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			s.reads++
			err := c.Get(ctx, key, o, opts...)
			s.meanwhile()
			return err
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("no answer came")
		},
	})
	began := time.Now()
	s.recall = newRecall(counting, func() time.Time { return began.Add(s.later) })
	return s
}

// read reads a Secret for a resource at rest, and returns what it holds.
func (s *recallStage) read(t *testing.T, key client.ObjectKey) string {
	t.Helper()
	var out corev1.Secret
	if err := s.Get(recalling(t.Context(), restingCluster()), key, &out); err != nil {
		t.Fatal(err)
	}
	return string(out.Data["k"])
}

// tamper has somebody else make 2 of what a Secret holds.
func (s *recallStage) tamper(t *testing.T) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"Mg=="}}`))
	if err := s.api.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}, patch); err != nil {
		t.Fatal(err)
	}
}

func restingCluster() *v1alpha1.EtcdCluster {
	o := etcdCluster()
	o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: o.Generation}}
	return o
}

func TestASecretOfOursIsReadOnceAMinuteForAClusterAtRest(t *testing.T) {
	s := newRecallStage(t)
	for range 5 {
		s.read(t, ours)
	}
	if s.reads != 1 {
		t.Errorf("%d reads", s.reads)
	}
	s.tamper(t)
	s.later = recallFor - time.Second
	if got := s.read(t, ours); got != "1" || s.reads != 1 {
		t.Errorf("%q after %d reads", got, s.reads)
	}
	s.later = recallFor
	if got := s.read(t, ours); got != "2" || s.reads != 2 {
		t.Errorf("%q after %d reads, a minute later", got, s.reads)
	}
}

func TestASecretOfOursIsKnownForMomentsWhileSomethingIsDone(t *testing.T) {
	sick := restingCluster()
	sick.Status.Conditions[0].Status = metav1.ConditionFalse
	for name, o := range map[string]Object{
		"not Ready": sick, "something is done": with(v1alpha1.ConditionReconciling), "something is in the way": with(v1alpha1.ConditionStalled),
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecallStage(t)
			read := func() {
				if err := s.Get(recalling(t.Context(), o), ours, &corev1.Secret{}); err != nil {
					t.Fatal(err)
				}
			}
			read()
			s.later = recallBriefly - time.Millisecond
			if read(); s.reads != 1 {
				t.Errorf("%d reads within moments", s.reads)
			}
			s.later = recallBriefly
			if read(); s.reads != 2 {
				t.Errorf("%d reads, moments later", s.reads)
			}
		})
	}
}

func TestWhatIsRememberedIsNotChangedByItsReaders(t *testing.T) {
	s := newRecallStage(t)
	for range 2 {
		var out corev1.Secret
		if err := s.Get(recalling(t.Context(), restingCluster()), ours, &out); err != nil {
			t.Fatal(err)
		}
		out.Data["k"][0] = 'x'
	}
	if got := s.read(t, ours); got != "1" || s.reads != 1 {
		t.Errorf("%q after %d reads", got, s.reads)
	}
}

func TestASecretIsReadAnew(t *testing.T) {
	key := ours
	tests := map[string]func(s *recallStage) Object{
		"of somebody else": func(*recallStage) Object { key = theirs; return restingCluster() },
		"for a cluster that nobody has looked at": func(*recallStage) Object { return etcdCluster() },
		"for a cluster that was changed": func(*recallStage) Object {
			o := restingCluster()
			o.Generation++
			return o
		},
		"for a cluster that goes": func(*recallStage) Object {
			o := restingCluster()
			now := metav1.Now()
			o.DeletionTimestamp = &now
			return o
		},
		"after it was applied, whatever came of it": func(s *recallStage) Object {
			if s.Apply(t.Context(), corev1ac.Secret(ours.Name, ours.Namespace)) == nil {
				t.Error("an answer came")
			}
			return restingCluster()
		},
		"after it was patched": func(s *recallStage) Object {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
			if err := s.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}, patch); err != nil {
				t.Fatal(err)
			}
			return restingCluster()
		},
		"after somebody tried to make it": func(s *recallStage) Object {
			if s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}) == nil {
				t.Error("it was made twice")
			}
			return restingCluster()
		},
		"when it was written while it was read": func(s *recallStage) Object {
			s.forget(ours)
			s.meanwhile = func() { s.forget(ours) }
			s.read(t, ours)
			s.meanwhile = func() {}
			return restingCluster()
		},
	}
	for name, disturb := range tests {
		t.Run(name, func(t *testing.T) {
			key = ours
			s := newRecallStage(t)
			s.read(t, ours)
			s.read(t, theirs)
			o := disturb(s)
			before := s.reads
			var out corev1.Secret
			if err := s.Get(recalling(t.Context(), o), key, &out); err != nil || s.reads != before+1 {
				t.Errorf("it was read from memory: %v", err)
			}
		})
	}
}

// with is a cluster at rest but for one condition.
func with(condition string) Object {
	o := restingCluster()
	o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
	return o
}

func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	s := newRecallStage(t)
	s.read(t, ours)
	s.later = 2 * recallFor
	s.read(t, theirs)
	if len(s.secrets) != 0 {
		t.Errorf("%d Secrets are remembered", len(s.secrets))
	}
}

func TestASecretThatIsGoneIsGone(t *testing.T) {
	s := newRecallStage(t)
	s.read(t, ours)
	if err := s.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Object{etcdCluster(), restingCluster()} { // Somebody else finds out, within the minute.
		if err := s.Get(recalling(t.Context(), o), ours, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("%v", err)
		}
	}
}

// A settled cluster costs the API server nothing for most of its life.
func TestASettledClusterIsLookedAtWithoutAskingForSecrets(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	memory, ok := kind.Client.(*recall)
	if !ok {
		t.Fatalf("%T", kind.Client)
	}
	s.pass()
	reads := 0
	under, ok := s.api.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", s.api.Client)
	}
	memory.Client = interceptor.NewClient(under, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 3 {
		s.pass()
	}
	if reads != 0 {
		t.Errorf("%d reads of Secrets in three passes", reads)
	}
	aMinuteLater(t, kind.Children)
	if s.pass(); reads == 0 {
		t.Error("Secrets are remembered for ever")
	}
}

// A user never gets the password of nobody: one that was deleted between two looks is made anew first. A resource that goes needs none.
func TestAGeneratedPasswordThatIsMissingIsWaitedFor(t *testing.T) {
	o := etcdCluster()
	c := newChildren(newWorld(t, o))
	_, err := c.generatedPassword(t.Context(), o, "gone")
	if hold := (cluster.Hold{}); !errors.As(err, &hold) || !strings.Contains(hold.Message, "gone") {
		t.Errorf("%v", err)
	}
	now := metav1.Now()
	o.DeletionTimestamp = &now
	if password, err := c.generatedPassword(t.Context(), o, "gone"); password != "" || err != nil {
		t.Errorf("%q, %v", password, err)
	}
}
