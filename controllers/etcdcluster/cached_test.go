package etcdcluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/fakeapi"
)

var decisionsOnPods = fakeapi.Decisions[*corev1.Pod]{
	"podState":   func(p *corev1.Pod) any { return podState(p) },
	"Running":    func(p *corev1.Pod) any { return Running(p) },
	"gateReport": func(p *corev1.Pod) any { return gateReport(p) },
	"oldRevision": func(p *corev1.Pod) any {
		return oldRevision(p, &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{UpdateRevision: "x"}})
	},
}

var decisionsOnSets = fakeapi.Decisions[*appsv1.StatefulSet]{
	"storage":     func(s *appsv1.StatefulSet) any { return storage(nil, s) },
	"keepsClaims": func(s *appsv1.StatefulSet) any { return keepsClaims(s) },
	"oldRevision": func(s *appsv1.StatefulSet) any { return oldRevision(&corev1.Pod{}, s) },
	"firstReach":  func(s *appsv1.StatefulSet) any { return firstReach(fakeapi.EtcdCluster(), s) },
	"condemned": func(s *appsv1.StatefulSet) any {
		return condemned(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: "x"}},
		}}, s)
	},
	"observeObjects": func(s *appsv1.StatefulSet) any {
		v, _ := model.ParseVersion(s.Spec.Template.Annotations[v1alpha1.AnnotationVersion])
		return []any{s.UID, s.CreationTimestamp, s.Spec.Replicas, v, s.Spec.Template.Annotations[v1alpha1.AnnotationVersion]}
	},
}

var decisionsOnClaims = fakeapi.Decisions[*corev1.PersistentVolumeClaim]{
	"claimState": func(c *corev1.PersistentVolumeClaim) any { return claimState(c) },
	"condemned":  func(c *corev1.PersistentVolumeClaim) any { return condemned(c, nil) },
}

// decidedBy names the decisions above that a function makes. Others read objects, ask members, or
// write.
var decidedBy = map[string][]string{
	"agreedBefore": {"podState"}, "hasPort": {"podState"}, "versionsInUse": {"podState"}, "claims": {"condemned", "claimState"}, "Pods": {"podState"},
	"observeCertificates": {"podState"}, "observeClaims": {"condemned", "claimState"}, "askMembers": {"Running"}, "findLosses": {"podState"}, "MemberClientOf": {"Running"},
}

func TestACachedObjectDecidesLikeTheWholeOne(t *testing.T) {
	t.Parallel()
	decisionsOnPods.Compare(t, manifests.ContainerEtcd, manifests.ContainerGate)
	decisionsOnSets.Compare(t, manifests.ContainerEtcd, manifests.ContainerGate)
	decisionsOnClaims.Compare(t, "")
	fakeapi.CheckCompared(t, decidedBy, decisionsOnPods, decisionsOnSets, decisionsOnClaims)
}
