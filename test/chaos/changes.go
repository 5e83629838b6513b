package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
)

// changed tells whether a planned operation has come to its end, as the resource and its pods are now.
type changed func(ctx context.Context, o client.Object) (bool, string, error)

// edits are the planned operations: each changes the resource, says what that is, and when it is done.
var edits = map[string]func(ctx context.Context, r *runner, o client.Object) (what string, done changed, err error){
	"scale":   editSize,
	"shards":  editShards,
	"upgrade": editVersion,
	"restart": editTemplate,
	"rotate":  editAuthority,
}

// wellAgain is how long a cluster may take at least to be well when an operation has come to its end.
const wellAgain = time.Minute

// change makes a planned operation and waits for its end.
func (r *runner) change(ctx context.Context, c *report.Change) {
	if !sleep(ctx, c.Drawn.After) {
		return
	}
	t, kind := r.target(c.Drawn.Cluster), schedule.OperationOf(c.Drawn.Kind)
	c.Began = time.Now()
	done, err := r.edit(ctx, t, c)
	if err == nil {
		r.say("change", c, "round %d: %s: %s", c.Round, t.Name, c.What)
		err = r.completed(ctx, t, c, kind, done)
	}
	if err == nil {
		_, err = t.wait(ctx, time.Now(), max(kind.Bound-time.Since(c.Began), wellAgain))
	}
	r.keep(func(*report.Run) { c.Ended = time.Now() })
	if err != nil {
		c.Error = err.Error()
		r.broken("round %d: %s of %s: %v", c.Round, c.Drawn.Kind, t.Name, err)
		return
	}
	r.say("changed", c, "round %d: %s: %s: done after %.0f s", c.Round, t.Name, c.What, c.Ended.Sub(c.Began).Seconds())
}

// completed waits for the end of an operation. Who gives clients and servers time to follow begins anew when a server was away: such an
// operation may take longer than its bound while faults keep coming.
func (r *runner) completed(ctx context.Context, t *target, c *report.Change, kind schedule.OperationKind, done changed) error {
	look := func() (bool, string, error) {
		ctx, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		o := t.object.DeepCopyObject().(client.Object)
		if err := r.Get(ctx, client.ObjectKeyFromObject(t.object), o); err != nil {
			return false, "it cannot be read", err
		}
		return done(ctx, o)
	}
	for {
		ok, is, err := look()
		if ok && err == nil {
			return nil
		}
		if time.Since(c.Began) > kind.Bound && time.Since(t.disturbed()) > kind.Calm {
			return errors.Join(fmt.Errorf("not within %s, nor %s after the last disturbance: %s", kind.Bound, kind.Calm, is), err)
		}
		if !sleep(ctx, lookEvery) {
			return fmt.Errorf("interrupted: %s", is)
		}
	}
}

// edit changes the resource. The API server may stand still meanwhile.
func (r *runner) edit(ctx context.Context, t *target, c *report.Change) (done changed, err error) {
	err = harness.Eventually(ctx, "edit "+t.Name, 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		ctx, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		o := t.object.DeepCopyObject().(client.Object)
		if err := r.Get(ctx, client.ObjectKeyFromObject(t.object), o); err != nil {
			return false, "it cannot be read", err
		}
		before := o.DeepCopyObject().(client.Object)
		var err error
		if c.What, done, err = edits[c.Drawn.Kind](ctx, r, o); err != nil {
			return false, "it is not known what to do", err
		}
		return true, "", r.Patch(ctx, o, client.MergeFrom(before))
	})
	return done, err
}

var errOther = errors.New("this operation is for another data store")

func editSize(_ context.Context, _ *runner, o client.Object) (string, changed, error) {
	e, ok := o.(*v1alpha1.EtcdCluster)
	if !ok {
		return "", nil, errOther
	}
	from := e.Spec.Size
	e.Spec.Size = size + largeSize - from
	to := e.Spec.Size
	return fmt.Sprintf("%d members become %d", from, to), func(_ context.Context, o client.Object) (bool, string, error) {
		s := o.(*v1alpha1.EtcdCluster).Status
		return s.Size == to && len(s.Members) == int(to), s.Activity, nil
	}, nil
}

func editShards(_ context.Context, _ *runner, o client.Object) (string, changed, error) {
	c, ok := o.(*v1alpha1.RedisCluster)
	if !ok {
		return "", nil, errOther
	}
	from := c.Spec.Shards
	c.Spec.Shards = shards + largeShards - from
	to := c.Spec.Shards
	return fmt.Sprintf("%d shards become %d", from, to), func(_ context.Context, o client.Object) (bool, string, error) {
		s := o.(*v1alpha1.RedisCluster).Status
		return s.ShardCount == to && len(s.Shards) == int(to) && s.Resharding == nil, s.Activity, nil
	}, nil
}

// editVersion goes to the other version: etcd there and back, the others there.
func editVersion(_ context.Context, r *runner, o client.Object) (string, changed, error) {
	var at *string
	keys := [2]string{"ETCD_3_6", "ETCD_3_7"}
	switch c := o.(type) {
	case *v1alpha1.EtcdCluster:
		at = &c.Spec.Version
	case *v1alpha1.RedisCluster:
		at, keys = &c.Spec.Version, [2]string{"REDIS_7_0", "REDIS_8_0"}
		if c.Spec.ServerEngine() == v1alpha1.EngineValkey {
			keys = [2]string{"VALKEY_8_1", "VALKEY_9_1"}
		}
	}
	low, err := r.Version(keys[0])
	high, err2 := r.Version(keys[1])
	if err := errors.Join(err, err2); err != nil {
		return "", nil, err
	}
	from := *at
	*at = high
	if from == high {
		*at = low
	}
	to := *at
	return fmt.Sprintf("version %s becomes %s", from, to), func(_ context.Context, o client.Object) (bool, string, error) {
		current := ""
		switch c := o.(type) {
		case *v1alpha1.EtcdCluster:
			current = c.Status.CurrentVersion
		case *v1alpha1.RedisCluster:
			current = c.Status.CurrentVersion
		}
		return current == to, "it runs " + current, nil
	}, nil
}

// restarted is an annotation of pods, whose change restarts them.
const restarted = "example.com/restarted"

func editTemplate(_ context.Context, r *runner, o client.Object) (string, changed, error) {
	now := v1alpha1.TemplateValue(time.Now().UTC().Format("150405"))
	template := func(p *v1alpha1.PodTemplate) *v1alpha1.PodTemplate {
		out := ptr.Deref(p, v1alpha1.PodTemplate{})
		out.Annotations = map[string]v1alpha1.TemplateValue{restarted: now}
		return &out
	}
	component := v1alpha1.ComponentEtcd
	switch c := o.(type) {
	case *v1alpha1.EtcdCluster:
		c.Spec.Template = template(c.Spec.Template)
	case *v1alpha1.RedisCluster:
		c.Spec.Template, component = template(c.Spec.Template), v1alpha1.ComponentRedis
	}
	return "all pods are restarted, one after the other", func(ctx context.Context, o client.Object) (bool, string, error) {
		pods, err := r.Pods(ctx, o.GetNamespace(), o.GetName(), component)
		left := 0
		for _, p := range pods {
			if p.Annotations[restarted] != string(now) {
				left++
			}
		}
		return left == 0 && len(pods) > 0, fmt.Sprintf("%d pods are left", left), err
	}, nil
}

// hold is how long clients are given to follow: the least that is allowed.
const hold = 90 * time.Second

func editAuthority(ctx context.Context, r *runner, o client.Object) (string, changed, error) {
	before, err := r.authority(ctx, o)
	if err != nil {
		return "", nil, err
	}
	tls := &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSManaged), Rotation: &v1alpha1.RotationSpec{
		After: ptr.To(metav1.Now()), Hold: &metav1.Duration{Duration: hold},
	}}
	switch c := o.(type) {
	case *v1alpha1.EtcdCluster:
		c.Spec.TLS = tls
	case *v1alpha1.RedisCluster:
		c.Spec.TLS = tls
	}
	return "the certificate authority is replaced", func(ctx context.Context, o client.Object) (bool, string, error) {
		now, err := r.authority(ctx, o)
		is := conditionOf(o, v1alpha1.ConditionTLSReady)
		return !bytes.Equal(before, now) && is.Reason == v1alpha1.ReasonIssued, is.Reason, err
	}, nil
}

// authority is the certificate of the authority of a cluster.
func (r *runner) authority(ctx context.Context, o client.Object) ([]byte, error) {
	var secret corev1.Secret
	if err := r.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: cluster.CASecret(o.GetName())}, &secret); err != nil {
		return nil, fmt.Errorf("read the authority of %s: %w", o.GetName(), err)
	}
	return secret.Data[corev1.TLSCertKey], nil
}
