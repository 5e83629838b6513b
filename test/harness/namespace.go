package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// NewNamespace makes a namespace that refuses every pod outside the restricted Pod Security Standard.
func (c *Cluster) NewNamespace(ctx context.Context, prefix string) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: namespacePrefix(prefix) + "-",
		Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted",
			"quorate.dev/test":                   "true",
		},
	}}
	if err := c.Create(ctx, ns); err != nil {
		return "", fmt.Errorf("make a namespace: %w", err)
	}
	c.remember(ctx, ns.Name)
	return ns.Name, nil
}

// namespacePrefix makes a test's name fit into that of a namespace, and short enough for the names derived from it.
func namespacePrefix(name string) string {
	var b strings.Builder
	for _, r := range strings.TrimPrefix(name, "Test") {
		switch {
		case r >= 'A' && r <= 'Z':
			if b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(r - 'A' + 'a')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	const longest = 40
	return strings.Trim(b.String()[:min(b.Len(), longest)], "-")
}

// Empty deletes what runs in a namespace and waits until no pod is left. Pods get no time to stop: their data goes as well, and
// Kubernetes would wait half of their grace period before it looks again.
func (c *Cluster) Empty(ctx context.Context, name string) error {
	for _, kind := range []client.Object{&v1alpha1.EtcdCluster{}, &v1alpha1.RedisCluster{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}} {
		if err := c.DeleteAllOf(ctx, kind, client.InNamespace(name)); err != nil {
			return fmt.Errorf("delete what is in namespace %s: %w", name, err)
		}
	}
	return Eventually(ctx, "the pods of "+name+" to be gone", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		if err := c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(1)); err != nil {
			return false, "", err
		}
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(name))
		return len(pods.Items) == 0, fmt.Sprintf("%d are left", len(pods.Items)), err
	})
}

// DeleteNamespace deletes a namespace with all that is in it and waits until it is gone.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	c.forget(name)
	if err := c.Empty(ctx, name); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(c.Delete(ctx, ns)); err != nil {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return c.WaitGone(ctx, ns, 3*time.Minute)
}

// WaitGone waits until an object does not exist any more.
func (c *Cluster) WaitGone(ctx context.Context, o client.Object, timeout time.Duration) error {
	key := client.ObjectKeyFromObject(o)
	return Eventually(ctx, fmt.Sprintf("%s %s to be gone", kindOf(c, o), key.Name), timeout, func(ctx context.Context) (bool, string, error) {
		err := c.Get(ctx, key, o)
		return apierrors.IsNotFound(err), "it is still there", client.IgnoreNotFound(err)
	})
}
