package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The operator as config/default deploys it.
const (
	SystemNamespace = "quorate-system"
	Manager         = "quorate-manager"
	// ManagerUser is who the operator is to the API server.
	ManagerUser = "system:serviceaccount:" + SystemNamespace + ":" + Manager
	// LeaderLease is the lock of the managers' leader election.
	LeaderLease = "manager.quorate.dev"
	// MetricsPort serves the manager's metrics over HTTPS.
	MetricsPort = 8443
)

// Deploy installs the CRDs and the operator with the image in IMG, the way users do, and waits until it runs. Without
// IMG it takes the operator that is there.
func (c *Cluster) Deploy(ctx context.Context) error {
	before, err := c.operator(ctx)
	if err != nil {
		return err
	}
	image := os.Getenv("IMG")
	switch {
	case image == "" && before == nil:
		return errors.New(`no operator is deployed and IMG is not set: run "make test-e2e"`)
	case image != "":
		if err := c.apply(ctx, image); err != nil {
			return err
		}
		if before != nil { // The same tag may now be another image.
			if _, err := c.Run(ctx, "rollout", "restart", "-n", SystemNamespace, "deployment/"+Manager); err != nil {
				return err
			}
		}
	}
	return c.rolledOut(ctx)
}

// apply installs the operator with an image.
func (c *Cluster) apply(ctx context.Context, image string) error {
	// What is generated is committed: no need to build the generator first. A run that was cut short may have left a field changed.
	_, err := output(c.command(ctx, "make", "-s", "-o", "manifests", "deploy", "APPLY_FLAGS=--force-conflicts", "IMG="+image, "KUBECTL="+c.Kubectl))
	return err
}

func (c *Cluster) rolledOut(ctx context.Context) error {
	_, err := c.Run(ctx, "rollout", "status", "-n", SystemNamespace, "deployment/"+Manager, "--timeout=3m")
	return err
}

// RestartOperator replaces the operator's pods as an update of its Deployment does.
func (c *Cluster) RestartOperator(ctx context.Context) error {
	if _, err := c.Run(ctx, "rollout", "restart", "-n", SystemNamespace, "deployment/"+Manager); err != nil {
		return err
	}
	return c.rolledOut(ctx)
}

// OperatorImage is the image that the operator runs from.
func (c *Cluster) OperatorImage(ctx context.Context) (string, error) {
	d, err := c.operator(ctx)
	if d == nil || err != nil {
		return "", errors.Join(err, errors.New("no operator is deployed"))
	}
	return d.Spec.Template.Spec.Containers[0].Image, nil
}

// InstallOperator installs the operator with an image and waits until it runs.
func (c *Cluster) InstallOperator(ctx context.Context, image string) error {
	if err := c.apply(ctx, image); err != nil {
		return err
	}
	return c.rolledOut(ctx)
}

// Rename gives an image of this machine a second name and loads it into the nodes under that one.
func (c *Cluster) Rename(ctx context.Context, image, name string) error {
	if _, err := output(c.command(ctx, "docker", "tag", image, name)); err != nil {
		return err
	}
	_, err := c.Kind(ctx, "load", name)
	return err
}

// namespacedOverlay puts config/namespaced into a namespace, as the comment there says.
const namespacedOverlay = "resources: [%s]\nnamespace: %s\n"

// DeployNamespaced installs an operator that works in one namespace alone, with the image of the one that is deployed, and
// waits until it runs. dir is an empty directory.
func (c *Cluster) DeployNamespaced(ctx context.Context, dir, ns string) error {
	deployed, err := c.operator(ctx)
	if err != nil {
		return err
	}
	if deployed == nil {
		return errors.New("no operator is deployed whose image could be taken")
	}
	base, err := filepath.Rel(dir, filepath.Join(c.Root, "config/namespaced")) // kustomize takes no absolute path.
	if err != nil {
		return fmt.Errorf("find config/namespaced: %w", err)
	}
	overlay := fmt.Sprintf(namespacedOverlay, base, ns)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		return fmt.Errorf("write the overlay: %w", err)
	}
	_, err = output(c.command(ctx, "make", "-s", "-o", "manifests", "deploy", "CONFIG="+dir, "KUBECTL="+c.Kubectl,
		"IMG="+deployed.Spec.Template.Spec.Containers[0].Image))
	if err != nil {
		return err
	}
	_, err = c.Run(ctx, "rollout", "status", "-n", ns, "deployment/"+Manager, "--timeout=3m")
	return err
}

// operator returns the operator's Deployment, nil when there is none.
func (c *Cluster) operator(ctx context.Context) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: Manager}, &d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the operator: %w", err)
	}
	return &d, nil
}

// ManagerPods returns the running pods of the operator.
func (c *Cluster) ManagerPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := c.List(ctx, &pods, client.InNamespace(SystemNamespace), client.MatchingLabels{
		"app.kubernetes.io/name": "quorate", "app.kubernetes.io/component": "manager",
	})
	if err != nil {
		return nil, fmt.Errorf("list the operator's pods: %w", err)
	}
	var live []corev1.Pod
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	return live, nil
}
