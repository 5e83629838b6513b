package owned

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
)

// recallStage counts how often Secrets are read from an API server that has one of ours and one of a user.
type recallStage struct {
	*secretCache
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
	w := fakeapi.New(t, secret(ours, map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}), secret(theirs, nil))
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
	s.secretCache = newSecretCache(counting, func() time.Time { return began.Add(s.later) })
	return s
}

// read reads a Secret for a resource at rest, and returns what it holds.
func (s *recallStage) read(t *testing.T, key client.ObjectKey) string {
	t.Helper()
	var out corev1.Secret
	if err := s.Get(WithCache(t.Context(), restingCluster()), key, &out); err != nil {
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
	o := fakeapi.EtcdCluster()
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
	s.later = SecretsExpireAfter - time.Second
	if got := s.read(t, ours); got != "1" || s.reads != 1 {
		t.Errorf("%q after %d reads", got, s.reads)
	}
	s.later = SecretsExpireAfter
	if got := s.read(t, ours); got != "2" || s.reads != 2 {
		t.Errorf("%q after %d reads, a minute later", got, s.reads)
	}
}

func TestASecretOfOursIsKnownForMomentsWhileSomethingIsDone(t *testing.T) {
	sick := restingCluster()
	sick.Status.Conditions[0].Status = metav1.ConditionFalse
	for name, o := range map[string]Owner{
		"not Ready": sick, "something is done": with(v1alpha1.ConditionReconciling), "something is in the way": with(v1alpha1.ConditionStalled),
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecallStage(t)
			read := func() {
				if err := s.Get(WithCache(t.Context(), o), ours, &corev1.Secret{}); err != nil {
					t.Fatal(err)
				}
			}
			read()
			s.later = secretsExpireInProgressAfter - time.Millisecond
			if read(); s.reads != 1 {
				t.Errorf("%d reads within moments", s.reads)
			}
			s.later = secretsExpireInProgressAfter
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
		if err := s.Get(WithCache(t.Context(), restingCluster()), ours, &out); err != nil {
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
	tests := map[string]func(s *recallStage) Owner{
		"of somebody else":                        func(*recallStage) Owner { key = theirs; return restingCluster() },
		"for a cluster that nobody has looked at": func(*recallStage) Owner { return fakeapi.EtcdCluster() },
		"for a cluster that was changed": func(*recallStage) Owner {
			o := restingCluster()
			o.Generation++
			return o
		},
		"for a cluster that goes": func(*recallStage) Owner {
			o := restingCluster()
			now := metav1.Now()
			o.DeletionTimestamp = &now
			return o
		},
		"after it was applied, whatever came of it": func(s *recallStage) Owner {
			if s.Apply(t.Context(), corev1ac.Secret(ours.Name, ours.Namespace)) == nil {
				t.Error("an answer came")
			}
			return restingCluster()
		},
		"after it was patched": func(s *recallStage) Owner {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
			if err := s.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}, patch); err != nil {
				t.Fatal(err)
			}
			return restingCluster()
		},
		"after somebody tried to make it": func(s *recallStage) Owner {
			if s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}) == nil {
				t.Error("it was made twice")
			}
			return restingCluster()
		},
		"when it was written while it was read": func(s *recallStage) Owner {
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
			if err := s.Get(WithCache(t.Context(), o), key, &out); err != nil || s.reads != before+1 {
				t.Errorf("it was read from memory: %v", err)
			}
		})
	}
}

// with is a cluster at rest but for one condition.
func with(condition string) Owner {
	o := restingCluster()
	o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
	return o
}

func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	s := newRecallStage(t)
	s.read(t, ours)
	s.later = 2 * SecretsExpireAfter
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
	for _, o := range []Owner{fakeapi.EtcdCluster(), restingCluster()} { // Somebody else finds out, within the minute.
		if err := s.Get(WithCache(t.Context(), o), ours, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("%v", err)
		}
	}
}

// A user never gets the password of nobody: one that was deleted between two looks is made anew first. A resource that goes needs none.
func TestAGeneratedPasswordThatIsMissingIsWaitedFor(t *testing.T) {
	o := fakeapi.EtcdCluster()
	c := newChildren(fakeapi.New(t, o))
	_, err := c.GeneratedPassword(t.Context(), o, "gone")
	if hold := (cluster.Hold{}); !errors.As(err, &hold) || !strings.Contains(hold.Message, "gone") {
		t.Errorf("%v", err)
	}
	now := metav1.Now()
	o.DeletionTimestamp = &now
	if password, err := c.GeneratedPassword(t.Context(), o, "gone"); password != "" || err != nil {
		t.Errorf("%q, %v", password, err)
	}
}

// Some steps cannot be undone, and are taken on Secrets as they are.
func TestWhatWasDecidedFromMemoryIsConfirmed(t *testing.T) {
	tests := map[string]struct {
		disturb func(s *recallStage)
		want    string
	}{
		"as it was": {func(*recallStage) {}, ""},
		"changed":   {func(s *recallStage) { s.tamper(t) }, "Secret ours has changed, and is read first"},
		"gone": {func(s *recallStage) {
			if err := s.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name}}); err != nil {
				t.Fatal(err)
			}
		}, "Secret ours has changed, and is read first"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newRecallStage(t)
			s.read(t, ours)
			ctx := WithCache(t.Context(), restingCluster())
			if err := s.Get(ctx, ours, &corev1.Secret{}); err != nil || s.reads != 1 {
				t.Fatalf("%v after %d reads", err, s.reads)
			}
			test.disturb(s)
			err := ConfirmCached(ctx)
			if got := fmt.Sprint(err); (err == nil) != (test.want == "") || !strings.Contains(got, test.want) || s.reads != 2 {
				t.Errorf("%v after %d reads", err, s.reads)
			}
		})
	}
	if err := ConfirmCached(WithCache(t.Context(), fakeapi.EtcdCluster())); err != nil {
		t.Error(err)
	}
}

// A cluster that is made again finds what is left of the former one until Kubernetes has taken it away.
func TestARememberedSecretOfAnEarlierClusterIsLookedForOnceMore(t *testing.T) {
	o := restingCluster()
	former := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "orders-auth", Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}}}
	former.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EtcdCluster", Name: o.Name, UID: "former", Controller: ptr.To(true)}}
	w := fakeapi.New(t, o, former)
	c := newChildren(w)
	ctx := WithCache(t.Context(), o)
	if _, err := c.OwnSecret(ctx, o, former.Name); err == nil {
		t.Error("it was taken for its own")
	}
	if err := w.Delete(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	if s, err := c.OwnSecret(ctx, o, former.Name); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// What retires an authority is read anew, however often the cluster is looked at.
func TestAnAuthorityIsNotRetiredFromMemory(t *testing.T) {
	o := restingCluster()
	want := Certificates{Servers: func(context.Context, string) (Servers, error) { return Servers{}, nil }}
	tests := map[string]struct {
		name  string
		facts func(ctx context.Context, c *Client) error
	}{
		"of ours": {cluster.ConnectionSecret(o.Name), func(ctx context.Context, c *Client) error {
			_, err := c.rotationFacts(ctx, o, want, clustertls.Authority{Retired: []byte("x")})
			return err
		}},
		"of an issuer": {cluster.ClientTLSSecret(o.Name), func(ctx context.Context, c *Client) error {
			want := want
			want.Leafs = map[string]clustertls.Leaf{cluster.ClientTLSSecret(o.Name): {}}
			_, err := c.trustFacts(ctx, o, want, clustertls.Trust{Retired: []byte("x")}, nil)
			return err
		}},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			s := newRecallStage(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: test.name, Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy},
				OwnerReferences: []metav1.OwnerReference{{UID: o.UID, Controller: ptr.To(true)}},
			}}
			if err := s.api.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			c := newChildren(fakeapi.New(t))
			c.Client = s.secretCache
			ctx := WithCache(t.Context(), o)
			for n := range 3 {
				if _, err := c.OwnSecret(ctx, o, test.name); err != nil {
					t.Fatal(err)
				}
				if s.reads != n+1 {
					t.Errorf("%d reads, want %d", s.reads, n+1)
				}
				if err := test.facts(ctx, c); err != nil {
					t.Fatal(err)
				}
			}
			if s.reads != 4 {
				t.Errorf("%d reads, want one at first and one for each look", s.reads)
			}
		})
	}
}
