package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/quorate/quorate/test/repository"
)

// TestEveryRightHasItsReason looks at the line above each marker that a right of the operator comes from.
func TestEveryRightHasItsReason(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	words, markers := regexp.MustCompile(`^//.*[[:alpha:]]{2}`), 0
	for _, dir := range []string{"cmd", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines := strings.Split(string(text), "\n")
			for i, line := range lines {
				if !strings.HasPrefix(line, "// +kubebuilder:rbac:") {
					continue
				}
				markers++
				if above := lines[i-1]; !words.MatchString(above) || strings.Contains(above, "+kubebuilder") {
					t.Errorf("%s:%d: say in the line above what the operator needs this for: %s", filepath.Base(path), i+1, line)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if markers < 30 {
		t.Errorf("only %d markers were found", markers)
	}
}

// TestNoRightIsWiderThanItsUse holds every role to what SECURITY.md promises.
func TestNoRightIsWiderThanItsUse(t *testing.T) {
	for _, o := range slices.Concat(ofKind(render(t, nil), "ClusterRole"), ofKind(render(t, nil), "Role")) {
		for _, rule := range rulesOf(t, o) {
			if all := slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs); slices.Contains(all, rbacv1.ResourceAll) {
				t.Errorf("%s has a wildcard: %+v", o.GetName(), rule)
			}
			if slices.ContainsFunc(rule.Verbs, func(v string) bool {
				return v == "escalate" || v == "bind" || v == "impersonate" || v == "deletecollection"
			}) {
				t.Errorf("%s: %+v", o.GetName(), rule)
			}
			for _, resource := range rule.Resources {
				switch {
				case resource == "pods/exec" || resource == "pods/attach" || resource == "pods/portforward" || resource == "serviceaccounts/token":
					t.Errorf("%s: %s", o.GetName(), resource)
				case resource == "secrets" && slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "list" || v == "watch" }):
					t.Errorf("%s reads Secrets that it has no name of: %v", o.GetName(), rule.Verbs)
				}
			}
		}
	}
}
