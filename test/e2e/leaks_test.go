package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// wantNoLeaks fails where what is secret in the namespace can be read elsewhere. Every test ends with it.
func (s *scope) wantNoLeaks(ctx context.Context, t *testing.T) {
	t.Helper()
	began := time.Now()
	found, texts, err := s.Leaks(ctx, s.ns)
	if err != nil {
		t.Errorf("look for secrets where they must not be: %v", err)
	}
	if len(found) > 0 {
		t.Errorf("what is secret can be read elsewhere:\n%s", strings.Join(found, "\n"))
	}
	t.Logf("looked for secrets in %d texts in %.1f s", texts, time.Since(began).Seconds())
}

// TestASecretThatIsPlantedIsFound shows that the search at the end of every test can fail: each of these places holds a password.
func TestASecretThatIsPlantedIsFound(t *testing.T) {
	t.Parallel()
	const password = "a-password-that-is-planted"
	var pod *corev1.Pod
	var planted *scope // Nothing else is to be found in the namespace of the test itself.
	feature := features.New("leaks").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			ns, err := s.NewNamespace(ctx, "planted")
			must(t, err)
			planted = &scope{s.Cluster, ns}
			s = planted
			plantSecret(ctx, t, s, password)
			s.create(ctx, t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "planted"},
				Data:       map[string]string{"header": "Basic " + base64.StdEncoding.EncodeToString([]byte("root:"+password))},
			})
			s.create(ctx, t, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: s.ns, Name: "planted"},
				InvolvedObject: corev1.ObjectReference{Namespace: s.ns, Kind: "ConfigMap", Name: "planted"}, Message: "AUTH " + password,
			})
			pod = plantInPod(ctx, t, s, password)
			// Also what was secret once is looked for.
			must(t, s.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "planted-auth"}}))
		})).
		Assess("it is found in all of them", step(func(ctx context.Context, t *testing.T, s *scope) {
			s = planted
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			go func() { // It ends by itself.
				_, _ = s.OnNode(ctx, harness.ControlPlane, "sh", "-c", "sleep 20; : "+password)
			}()
			must(t, harness.Eventually(ctx, "the secrets to be found", 15*time.Second, func(ctx context.Context) (bool, string, error) {
				found, _, err := s.Leaks(ctx, s.ns)
				all := strings.Join(found, "\n")
				if strings.Contains(all, password) {
					t.Errorf("it says the password: %s", all)
				}
				for _, where := range []string{
					"*v1.ConfigMap planted", "*v1.Event planted", "*v1.Pod " + pod.Name, "the log of load in pod " + pod.Name,
					"the command line of a process on node " + harness.ControlPlane,
				} {
					if want := fmt.Sprintf("Secret planted-auth, key password is in %s", where); !strings.Contains(all, want) {
						return false, want + " is not among\n" + all, err
					}
				}
				return true, "", err
			}))
		})).
		Teardown(step(func(ctx context.Context, t *testing.T, s *scope) { must(t, s.DeleteNamespace(ctx, planted.ns)) }))
	suite.Test(t, feature.Feature())
}

// plantSecret makes a Secret as the operator's are.
func plantSecret(ctx context.Context, t *testing.T, s *scope, password string) {
	t.Helper()
	s.create(ctx, t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "planted-auth", Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}},
		StringData: map[string]string{"password": password},
	})
}

// plantInPod runs a pod that has the password among its arguments, and complains about it in its log.
func plantInPod(ctx context.Context, t *testing.T, s *scope, password string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "planted"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "load", Image: loadImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"etcd", "-" + password},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	s.create(ctx, t, pod)
	must(t, harness.Until(ctx, s.Cluster, pod, harness.Deadline{What: "the pod to end", Within: time.Minute}, func(p *corev1.Pod) (bool, string) {
		return p.Status.Phase == corev1.PodFailed, string(p.Status.Phase)
	}))
	return pod
}
