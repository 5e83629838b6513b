package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// BuildLoad builds the image of test/e2e/load, named after its content, and loads it into the nodes.
func (c *Cluster) BuildLoad(ctx context.Context) (image string, err error) {
	dir, err := os.MkdirTemp("", "quorate-load")
	if err != nil {
		return "", fmt.Errorf("build the load image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "load")
	build := c.command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./test/e2e/load")
	build.Env = append(build.Env, "CGO_ENABLED=0", "GOOS=linux")
	if _, err := output(build); err != nil {
		return "", err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("build the load image: %w", err)
	}
	image = fmt.Sprintf("quorate.dev/load:%x", sha256.Sum256(content))[:len("quorate.dev/load:")+12]
	if out, err := c.OnNode(ctx, c.name+"-control-plane", "ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+image); err == nil && out == image {
		return image, nil
	}
	if err := c.importImage(ctx, image, "load", content); err != nil {
		return "", err
	}
	_, err = c.Kind(ctx, "load", image)
	return image, err
}

// importImage makes an image that holds one static program and nothing else. It needs no builder.
func (c *Cluster) importImage(ctx context.Context, image, name string, program []byte) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program))}); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if _, err := w.Write(program); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	cmd := c.command(ctx, "docker", "import", "-c", `ENTRYPOINT ["/`+name+`"]`, "-c", "USER 65532:65532", "-", image)
	cmd.Stdin = &archive
	_, err := output(cmd)
	return err
}

// Load is a running writer and checker.
type Load struct {
	c   *Cluster
	pod *corev1.Pod
}

// LoadOptions say what to write to.
type LoadOptions struct {
	Image, Namespace string
	// Mode is etcd, redis or redis-replicated; Cluster is the name of the resource.
	Mode, Cluster string
	// Endpoints are host:port of the members; none: what the connection Secret names.
	Endpoints []string
	// Rate in writes per second; 0: the default of the mode.
	Rate int
	// Flags are further ones of the load.
	Flags []string
	// Node that it runs on; empty: any.
	Node string
}

// loadPort serves the commands of the load.
const loadPort = 8080

// StartLoad starts a load and returns when its first writes are acknowledged.
func (c *Cluster) StartLoad(ctx context.Context, o LoadOptions) (*Load, error) {
	l := &Load{c: c, pod: loadPod(o)}
	if err := c.Create(ctx, l.pod); err != nil {
		return nil, fmt.Errorf("start the load: %w", err)
	}
	_, err := l.WaitAcked(ctx, 20, 2*time.Minute)
	return l, err
}

// WaitAcked waits until so many writes more than now are acknowledged.
func (l *Load) WaitAcked(ctx context.Context, more int, timeout time.Duration) (ledger.Summary, error) {
	var s ledger.Summary
	first := -1
	err := Eventually(ctx, fmt.Sprintf("%d more acknowledged writes", more), timeout, func(ctx context.Context) (bool, string, error) {
		var err error
		if s, err = l.Progress(ctx); err != nil {
			return false, "the load does not answer", err
		}
		if first < 0 {
			first = s.Acked
		}
		return s.Acked >= first+more, s.String(), nil
	})
	return s, err
}

// Progress returns the figures so far.
func (l *Load) Progress(ctx context.Context) (s ledger.Summary, err error) {
	raw, err := l.command(ctx, http.MethodGet, "progress")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}

// Afresh forgets how long writes have stalled until now.
func (l *Load) Afresh(ctx context.Context) error {
	_, err := l.command(ctx, http.MethodPost, "afresh")
	return err
}

// Pause ends the writing; what is acknowledged until then must survive whatever comes before Stop.
func (l *Load) Pause(ctx context.Context) error {
	_, err := l.command(ctx, http.MethodPost, "pause")
	return err
}

// Stop ends the load, waits until it has checked every acknowledged write, and returns what it found.
func (l *Load) Stop(ctx context.Context) (s ledger.Summary, err error) {
	// The cluster may be another one by now, with another Secret. The kubelet looks at it within a minute, or when the pod changes.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"quorate.dev/test":"stopping"}}}`))
	if err := l.c.Patch(ctx, l.pod, patch); err != nil {
		return s, fmt.Errorf("stop the load: %w", err)
	}
	// A load that ends at once may not get to answer.
	_, unanswered := l.command(ctx, http.MethodPost, "stop")
	err = Until(ctx, l.c, l.pod, Deadline{What: "the load to finish its check", Within: 12 * time.Minute}, func(p *corev1.Pod) (bool, string) {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, string(p.Status.Phase)
	})
	if err != nil {
		return s, errors.Join(unanswered, err)
	}
	log, err := l.c.Logs(ctx, l.pod.Namespace, l.pod.Name, "load", 0)
	if err != nil {
		return s, err
	}
	if l.pod.Status.Phase == corev1.PodFailed {
		return s, fmt.Errorf("the load could not check: %s", log[strings.LastIndex(log, "\n")+1:])
	}
	return summaryIn(log)
}

// summaryIn finds the summary in the log of a load that has ended. What its client of the data store has to say, and in JSON as well,
// may come before and after.
func summaryIn(log string) (ledger.Summary, error) {
	lines := strings.Split(log, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		var s ledger.Summary
		if err := json.Unmarshal([]byte(lines[i]), &s); err == nil && s.Mode != "" {
			return s, nil
		}
	}
	return ledger.Summary{}, fmt.Errorf("there is no summary in the log of the load: %q", lines[len(lines)-1])
}

func (l *Load) command(ctx context.Context, verb, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	raw, err := l.c.Clients.CoreV1().RESTClient().Verb(verb).Namespace(l.pod.Namespace).Resource("pods").
		Name(l.pod.Name + ":" + strconv.Itoa(loadPort)).SubResource("proxy").Suffix(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s of the load: %w", path, err)
	}
	return raw, nil
}

func loadPod(o LoadOptions) *corev1.Pod {
	args := []string{o.Mode}
	if len(o.Endpoints) > 0 {
		args = append(args, "-endpoints="+strings.Join(o.Endpoints, ","))
	}
	if o.Rate > 0 {
		args = append(args, "-rate="+strconv.Itoa(o.Rate))
	}
	args = append(args, o.Flags...)
	var node map[string]string
	if o.Node != "" {
		node = map[string]string{corev1.LabelHostname: o.Node}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, GenerateName: "load-" + o.Cluster + "-"},
		Spec: corev1.PodSpec{
			NodeSelector:                  node,
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "load", Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "connection", MountPath: "/connection", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "connection", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: cluster.ConnectionSecret(o.Cluster)},
			}}},
		},
	}
}
