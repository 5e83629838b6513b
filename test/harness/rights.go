package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Right is a verb on a resource, with its subresource: patch etcdclusters.quorate.dev/status.
type Right struct{ Verb, Group, Resource string }

func (r Right) String() string {
	resource, sub, below := strings.Cut(r.Resource, "/")
	if r.Group != "" {
		resource += "." + r.Group
	}
	if below {
		resource += "/" + sub
	}
	return r.Verb + " " + resource
}

// roleFiles are where the operator's rights are, below the root of the repository.
var roleFiles = []string{"config/rbac/role.yaml", "config/rbac/leader_election.yaml", "config/rbac/metrics_auth.yaml"}

// auditLogs are the API server's audit logs in the control plane, the one in use and those that were put aside.
const auditLogs = "/var/log/kubernetes/audit*.log"

// RightsReport says which of its rights the operator has used, and which it lacked.
type RightsReport struct {
	// Granted counts all rights; Unused are those of which the audit log shows no use, as far as it goes back.
	Granted int
	Unused  []Right
	// Denied are requests that the operator had no right to.
	Denied []string
}

// Rights compares what the operator may do with what it did, by the API server's audit log. Denied is about what happened since a time.
func (c *Cluster) Rights(ctx context.Context, since time.Time) (RightsReport, error) {
	granted, err := c.grantedRights()
	if err != nil {
		return RightsReport{}, err
	}
	// One line for each kind of request: the log is large.
	const pick = `s/.*"verb":"([a-z]+)".*"objectRef":\{([^}]*)\}.*"authorization.k8s.io\/decision":"allow".*/\1 {\2}/p`
	const strip = `s/"(namespace|name|uid|resourceVersion|apiVersion)":"[^"]*",?//g`
	const mine = "cat " + auditLogs + " | grep -F '" + ManagerUser + "'"
	out, err := c.OnNode(ctx, c.name+"-control-plane", "sh", "-c", mine+" | sed -nE '"+pick+"' | sed -E '"+strip+"' | sort -u")
	if err != nil {
		return RightsReport{}, fmt.Errorf("read the audit log: %w", err)
	}
	used, err := usedRights(out)
	if err != nil {
		return RightsReport{}, err
	}
	if !used[Right{"update", "coordination.k8s.io", "leases"}] {
		return RightsReport{}, fmt.Errorf("among %d kinds of requests there is no renewal of the lease: this looks at the wrong log or the wrong user", len(used))
	}
	out, err = c.OnNode(ctx, c.name+"-control-plane", "sh", "-c", mine+` | grep -F '"authorization.k8s.io/decision":"forbid"' || true`)
	if err != nil {
		return RightsReport{}, fmt.Errorf("read the audit log: %w", err)
	}
	denied, err := deniedRequests(out, since)
	return RightsReport{Granted: len(granted), Unused: unusedRights(granted, used), Denied: denied}, err
}

func (c *Cluster) grantedRights() ([]Right, error) {
	var rules []rbacv1.PolicyRule
	for _, name := range roleFiles {
		raw, err := os.ReadFile(filepath.Join(c.Root, name))
		if err != nil {
			return nil, fmt.Errorf("read the operator's rights: %w", err)
		}
		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			rules = append(rules, role.Rules...)
		}
	}
	return rightsOf(rules), nil
}

// rightsOf are the single rights of rules, in order and each once.
func rightsOf(rules []rbacv1.PolicyRule) []Right {
	var out []Right
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, Right{verb, group, resource})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Right) int {
		return slices.Compare([]string{a.Group, a.Resource, a.Verb}, []string{b.Group, b.Resource, b.Verb})
	})
	return slices.Compact(out)
}

// usedRights reads lines such as: patch {"resource":"pods","subresource":"resize",}.
func usedRights(text string) (map[Right]bool, error) {
	out := map[Right]bool{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		verb, object, _ := strings.Cut(lines.Text(), " ")
		var ref struct{ Resource, APIGroup, Subresource string }
		if err := json.Unmarshal([]byte(strings.Replace(object, ",}", "}", 1)), &ref); err != nil {
			return nil, fmt.Errorf("read the audit log: %q: %w", lines.Text(), err)
		}
		resource := ref.Resource
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		out[Right{verb, ref.APIGroup, resource}] = true
	}
	return out, nil
}

// unusedRights leaves out what Kubernetes asks for without a line in the log, or under other circumstances.
func unusedRights(granted []Right, used map[Right]bool) []Right {
	return slices.DeleteFunc(slices.Clone(granted), func(r Right) bool {
		instead := map[string]string{
			"create": "patch", // Apply makes what is not there yet, and whoever does that needs both rights.
			"list":   "watch", // A watch begins with a list where the API server can do that.
		}[r.Verb]
		// Who sets an owner that blocks its deletion needs this right (the plugin OwnerReferencesPermissionEnforcement).
		owns := r.Verb == "update" && strings.HasSuffix(r.Resource, "/finalizers")
		return used[r] || used[Right{instead, r.Group, r.Resource}] || owns
	})
}

// deniedRequests reads lines of the audit log.
func deniedRequests(text string, since time.Time) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		var r struct {
			Verb, RequestURI         string
			RequestReceivedTimestamp metav1.MicroTime
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("read the audit log: %q: %w", line, err)
		}
		if r.RequestReceivedTimestamp.After(since) {
			out = append(out, fmt.Sprintf("%s %s at %s", r.Verb, r.RequestURI, r.RequestReceivedTimestamp.Format(time.TimeOnly)))
		}
	}
	return out, nil
}
