package main

import (
	_ "embed" // The icon.
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed icon.svg
var icon []byte

const summary = "Runs etcd clusters and Redis or Valkey clusters: bootstrap, scaling, upgrades, backup and restore, certificates, failures"

const description = `Quorate runs etcd clusters and Redis or Valkey clusters on Kubernetes. You apply a ten-line resource; Quorate forms the
cluster, issues its certificates and passwords, keeps it whole when pods and nodes die, backs it up, and says in one sentence what
it is doing and what it waits for. When it cannot go on safely, it stops and tells why, and the cluster keeps serving.
`

// clusterScoped are the resources that belong to no namespace.
var clusterScoped = []string{"nodes", "persistentvolumes", "storageclasses", "tokenreviews", "subjectaccessreviews"}

// serviceVersion is the ClusterServiceVersion.
func serviceVersion(version, image string, crds []definition) (object, error) {
	examples, err := samples()
	if err != nil {
		return nil, err
	}
	install, err := installation(image)
	if err != nil {
		return nil, err
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1",
		"kind":       "ClusterServiceVersion",
		"metadata": object{
			"name":      packageName + ".v" + version,
			"namespace": "placeholder",
			"labels": object{
				"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported",
			},
			"annotations": object{
				"alm-examples": examples, "capabilities": "Deep Insights", "categories": "Database", "containerImage": image,
				"description": summary, "repository": "https://github.com/quorate/quorate", "support": "https://github.com/quorate/quorate/issues",
			},
		},
		"spec": object{
			"displayName": "Quorate", "description": description, "version": version, "maturity": "alpha", "minKubeVersion": "1.32.0",
			"icon":        []any{object{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}},
			"keywords":    []any{"etcd", "redis", "valkey", "database", "backup"},
			"maintainers": []any{object{"name": "The Quorate authors", "email": "maintainers@quorate.dev"}},
			"provider":    object{"name": "Quorate", "url": "https://github.com/quorate/quorate"},
			"links":       []any{object{"name": "Documentation", "url": "https://github.com/quorate/quorate/tree/main/docs"}},
			"installModes": []any{
				object{"type": "OwnNamespace", "supported": true},
				object{"type": "SingleNamespace", "supported": true},
				object{"type": "MultiNamespace", "supported": true},
				object{"type": "AllNamespaces", "supported": true},
			},
			"relatedImages":             []any{object{"name": "manager", "image": image}},
			"customresourcedefinitions": object{"owned": owned(crds)},
			"install":                   object{"strategy": "deployment", "spec": install},
		},
	}, nil
}

// installation is what the Lifecycle Manager installs: the Deployment and its rights. Rules of namespaces become Roles in those that the
// operator is for, or ClusterRoles when it is for all.
func installation(image string) (object, error) {
	var deployment appsv1.Deployment
	if err := read("config/manager/manager.yaml", &deployment); err != nil {
		return nil, err
	}
	c := &deployment.Spec.Template.Spec.Containers[0]
	c.Image = image
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "AGENT_IMAGE" })
	c.Env = append(c.Env, corev1.EnvVar{Name: "AGENT_IMAGE", Value: image}, corev1.EnvVar{
		Name: "WATCH_NAMESPACE", // The Lifecycle Manager writes the namespaces there; none are all.
		ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['olm.targetNamespaces']"},
		},
	})
	var inside, outside []rbacv1.PolicyRule
	for _, file := range []string{"role.yaml", "leader_election.yaml", "metrics_auth.yaml"} {
		var role rbacv1.ClusterRole
		if err := read(filepath.Join("config/rbac", file), &role); err != nil {
			return nil, err
		}
		for _, rule := range role.Rules {
			in, out := divide(rule)
			inside, outside = appendRule(inside, in), appendRule(outside, out)
		}
	}
	account := deployment.Spec.Template.Spec.ServiceAccountName
	return object{
		"deployments":        []any{object{"name": deployment.Name, "label": deployment.Labels, "spec": deployment.Spec}},
		"permissions":        []any{object{"serviceAccountName": account, "rules": inside}},
		"clusterPermissions": []any{object{"serviceAccountName": account, "rules": outside}},
	}, nil
}

// divide splits a rule into what belongs to namespaces and what does not.
func divide(rule rbacv1.PolicyRule) (inside, outside rbacv1.PolicyRule) {
	inside, outside = *rule.DeepCopy(), *rule.DeepCopy()
	is := func(resource string) bool { return slices.Contains(clusterScoped, resource) }
	inside.Resources = slices.DeleteFunc(inside.Resources, is)
	outside.Resources = slices.DeleteFunc(outside.Resources, func(r string) bool { return !is(r) })
	return inside, outside
}

func appendRule(rules []rbacv1.PolicyRule, rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if len(rule.Resources) == 0 {
		return rules
	}
	return append(rules, rule)
}

// samples are the resources of config/samples/kustomization.yaml and one of every other kind, as JSON.
func samples() (string, error) {
	var all []any
	for _, name := range []string{"etcdcluster", "etcduser", "rediscluster", "redisuser", "backup", "backupschedule", "restore", "autoscaler"} {
		docs, err := documents("config/samples/" + name + ".yaml")
		if err != nil {
			return "", err
		}
		for _, doc := range docs {
			var o object
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return "", fmt.Errorf("read the sample %s: %w", name, err)
			}
			if len(o) > 0 {
				all = append(all, o)
			}
		}
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the samples: %w", err)
	}
	return string(raw), nil
}
