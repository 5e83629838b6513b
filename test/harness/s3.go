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
	"path/filepath"
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

// S3 is a server that speaks the language of S3, in a namespace of the cluster. Its data ends with it.
type S3 struct {
	c  *Cluster
	ns string
}

// The S3 server of a namespace.
const (
	s3Name   = "s3"
	s3Port   = 7070
	s3Region = "us-east-1"
	// S3Bucket is there from the beginning.
	S3Bucket = "backups"
	// S3Credentials names the Secret with the credentials of the server's administrator.
	S3Credentials = "s3-credentials"

	s3AccessKey, s3SecretKey = "quorate-tests", "only-for-tests"
)

// BuildS3 builds the image of the S3 server, named after its content, and loads it into the nodes.
func (c *Cluster) BuildS3(ctx context.Context) (image string, err error) {
	path, err := output(c.command(ctx, filepath.Join(c.Root, "hack/tools.sh"), "versitygw"))
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("build the S3 image: %w", err)
	}
	const name = "quorate.dev/versitygw"
	image = fmt.Sprintf("%s:%x", name, sha256.Sum256(program))[:len(name)+13]
	if out, err := c.OnNode(ctx, ControlPlane, "ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+image); err == nil && out == image {
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
				Args: []string{"--port", fmt.Sprintf(":%d", s3Port), "--region", s3Region, "posix", "--sidecar", "/meta", "/data"},
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
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: S3Credentials},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": s3AccessKey, "AWS_SECRET_ACCESS_KEY": s3SecretKey},
	}
	if err := errors.Join(c.Create(ctx, secret), c.Create(ctx, service), c.Create(ctx, pod)); err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	err := Until(ctx, c, pod, "the S3 server to be ready", time.Minute, func(p *corev1.Pod) (bool, string) {
		return IsReady(p), string(p.Status.Phase)
	})
	if err != nil {
		return nil, err
	}
	s := &S3{c, ns}
	if _, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: ptr.To(S3Bucket)}); err != nil {
		return nil, fmt.Errorf("make the bucket: %w", err)
	}
	return s, nil
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// Destination is a place in the bucket, as pods of the namespace reach it.
func (s *S3) Destination(prefix string) v1alpha1.BackupDestination {
	query := url.Values{"endpoint": {fmt.Sprintf("http://%s.%s.svc:%d", s3Name, s.ns, s3Port)}, "region": {s3Region}, "path-style": {"true"}}
	return v1alpha1.BackupDestination{
		URL:         strings.TrimSuffix("s3://"+S3Bucket+"/"+prefix, "/") + "?" + query.Encode(),
		Credentials: &v1alpha1.SecretReference{Name: S3Credentials},
	}
}

// Client talks to the server through the API server.
func (s *S3) Client() *s3.Client {
	pod := types.NamespacedName{Namespace: s.ns, Name: s3Name}
	return s3.New(s3.Options{
		BaseEndpoint: ptr.To(fmt.Sprintf("http://%s:%d", s3Name, s3Port)), Region: s3Region, UsePathStyle: true,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(s3AccessKey, s3SecretKey, "")),
		HTTPClient: &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return s.c.Dial(ctx, pod, "", s3Port)
			},
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
