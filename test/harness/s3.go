package harness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
)

// S3 is a server that speaks the language of S3, in a namespace of a cluster or outside of all. Its data ends with it.
type S3 struct {
	// endpoint is where pods reach it, dial connects tests to it.
	endpoint string
	dial     func(context.Context) (net.Conn, error)
}

const (
	// s3Name is what the pod and the Service of a server are called, s3Container the one outside.
	s3Name      = "s3"
	s3Container = "quorate-s3"
	s3Port      = 7070
	s3Region    = "us-east-1"
	// S3Bucket is there from the beginning.
	S3Bucket = "backups"
	// S3Credentials names the Secret with the credentials of the server's administrator.
	S3Credentials = "s3-credentials"

	s3AccessKey, s3SecretKey = "quorate-tests", "only-for-tests"
)

// s3Image builds the S3 server, and names its image after its content.
func (c *Cluster) s3Image(ctx context.Context) (image string, program []byte, err error) {
	path, err := c.Tool(ctx, "versitygw")
	if err != nil {
		return "", nil, err
	}
	if program, err = os.ReadFile(path); err != nil {
		return "", nil, fmt.Errorf("build the S3 image: %w", err)
	}
	const name = "quorate.dev/versitygw"
	return fmt.Sprintf("%s:%x", name, sha256.Sum256(program))[:len(name)+13], program, nil
}

// BuildS3 builds the image of the S3 server and loads it into the nodes.
func (c *Cluster) BuildS3(ctx context.Context) (image string, err error) {
	image, program, err := c.s3Image(ctx)
	if err != nil {
		return "", err
	}
	if out, err := c.OnNode(ctx, c.name+"-control-plane", "ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+image); err == nil && out == image {
		return image, nil
	}
	if err := c.importImage(ctx, image, "versitygw", program); err != nil {
		return "", err
	}
	_, err = c.Kind(ctx, "load", image)
	return image, err
}

// StartS3 starts an S3 server in a namespace and makes its bucket.
func (c *Cluster) StartS3(ctx context.Context, ns, image string) (*S3, error) {
	labels := map[string]string{"app": s3Name}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: s3Name, Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](1),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](65532),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: s3Name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: s3Args(),
				Env:  []corev1.EnvVar{{Name: "ROOT_ACCESS_KEY", Value: s3AccessKey}, {Name: "ROOT_SECRET_KEY", Value: s3SecretKey}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(s3Port)},
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "meta", MountPath: "/meta"}, {Name: "tmp", MountPath: "/tmp"}},
			}},
			Volumes: []corev1.Volume{emptyDir("data"), emptyDir("meta"), emptyDir("tmp")},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: s3Name},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: s3Port}}},
	}
	if err := errors.Join(c.Create(ctx, S3Secret(ns)), c.Create(ctx, service), c.Create(ctx, pod)); err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	err := Until(ctx, c, pod, Deadline{What: "the S3 server to be ready", Within: time.Minute}, func(p *corev1.Pod) (bool, string) {
		return IsReady(p), string(p.Status.Phase)
	})
	if err != nil {
		return nil, err
	}
	s := &S3{
		endpoint: fmt.Sprintf("http://%s.%s.svc:%d", s3Name, ns, s3Port),
		dial: func(ctx context.Context) (net.Conn, error) {
			return c.Dial(ctx, types.NamespacedName{Namespace: ns, Name: s3Name}, "", s3Port)
		},
	}
	if _, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: ptr.To(S3Bucket)}); err != nil {
		return nil, fmt.Errorf("make the bucket: %w", err)
	}
	return s, nil
}

func s3Args() []string {
	return []string{"--port", fmt.Sprintf(":%d", s3Port), "--region", s3Region, "posix", "--sidecar", "/meta", "/data"}
}

// S3Secret holds the credentials of the server's administrator.
func S3Secret(ns string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: S3Credentials},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": s3AccessKey, "AWS_SECRET_ACCESS_KEY": s3SecretKey},
	}
}

// StartS3Outside starts an S3 server in a container beside the nodes, which outlives every cluster, and makes its bucket. The caller
// stops it.
func (c *Cluster) StartS3Outside(ctx context.Context) (*S3, error) {
	image, program, err := c.s3Image(ctx)
	if err != nil {
		return nil, err
	}
	// An interrupted run may have left one.
	if err := errors.Join(c.StopS3Outside(ctx), c.importImage(ctx, image, "versitygw", program)); err != nil {
		return nil, err
	}
	args := []string{"run", "--detach", "--name", s3Container, "--network", "kind", "--publish", fmt.Sprintf("127.0.0.1::%d", s3Port), "--read-only"}
	for _, dir := range []string{"/data", "/meta", "/tmp"} {
		args = append(args, "--tmpfs", dir+":uid=65532,gid=65532,mode=0700")
	}
	args = append(args, "--env", "ROOT_ACCESS_KEY="+s3AccessKey, "--env", "ROOT_SECRET_KEY="+s3SecretKey, image)
	if _, err := output(c.command(ctx, "docker", append(args, s3Args()...)...)); err != nil {
		return nil, err
	}
	ip, err := output(c.command(ctx, "docker", "inspect", "--format", "{{.NetworkSettings.Networks.kind.IPAddress}}", s3Container))
	if err != nil {
		return nil, err
	}
	published, err := output(c.command(ctx, "docker", "port", s3Container, fmt.Sprintf("%d/tcp", s3Port)))
	if err != nil {
		return nil, err
	}
	s := &S3{
		endpoint: "http://" + net.JoinHostPort(ip, strconv.Itoa(s3Port)),
		dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", published)
		},
	}
	return s, Eventually(ctx, "the S3 server outside to take a bucket", time.Minute, func(ctx context.Context) (bool, string, error) {
		_, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: ptr.To(S3Bucket)})
		return err == nil, "it does not", err
	})
}

// StopS3Outside removes the server outside of the clusters, with its data.
func (c *Cluster) StopS3Outside(ctx context.Context) error {
	_, err := output(c.command(ctx, "docker", "rm", "--force", "--volumes", s3Container))
	return err
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// Destination is a place in the bucket, as pods reach it.
func (s *S3) Destination(prefix string) v1alpha1.BackupDestination {
	query := url.Values{"endpoint": {s.endpoint}, "region": {s3Region}, "path-style": {"true"}}
	return v1alpha1.BackupDestination{
		URL:         strings.TrimSuffix("s3://"+S3Bucket+"/"+prefix, "/") + "?" + query.Encode(),
		Credentials: &v1alpha1.SecretReference{Name: S3Credentials},
	}
}

// Client talks to the server, to one in a cluster through the API server.
func (s *S3) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &s.endpoint, Region: s3Region, UsePathStyle: true,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(s3AccessKey, s3SecretKey, "")),
		HTTPClient: &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		}},
	})
}

// Objects lists what is stored below a prefix, with sizes in bytes.
func (s *S3) Objects(ctx context.Context, prefix string) (map[string]int64, error) {
	out := map[string]int64{}
	pages := s3.NewListObjectsV2Paginator(s.Client(), &s3.ListObjectsV2Input{Bucket: ptr.To(S3Bucket), Prefix: ptr.To(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		for _, o := range page.Contents {
			out[*o.Key] = ptr.Deref(o.Size, 0)
		}
	}
	return out, nil
}

// Get reads an object.
func (s *S3) Get(ctx context.Context, path string) (content []byte, err error) {
	r, err := s.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: ptr.To(S3Bucket), Key: &path})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	return io.ReadAll(r.Body)
}
