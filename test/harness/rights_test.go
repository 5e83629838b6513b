package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/quorate/quorate/test/repository"
)

func TestRightsWithoutUseAreNamed(t *testing.T) {
	granted := rightsOf([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/resize"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch", "get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"create", "patch", "list", "watch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"create", "list"}},
		{APIGroups: []string{"quorate.dev"}, Resources: []string{"etcdclusters/status", "etcdclusters/finalizers"}, Verbs: []string{"update"}},
	})
	used, err := usedRights("get {\"resource\":\"pods\",}\npatch {\"resource\":\"pods\",\"subresource\":\"resize\"}\nwatch {\"resource\":\"statefulsets\",\"apiGroup\":\"apps\",}\n" +
		"patch {\"resource\":\"statefulsets\",\"apiGroup\":\"apps\",}\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range unusedRights(granted, used) {
		got = append(got, r.String())
	}
	if diff := cmp.Diff([]string{"patch pods", "create services", "list services", "delete statefulsets.apps", "update etcdclusters.quorate.dev/status"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(granted) != 12 {
		t.Errorf("%d rights: %v", len(granted), granted)
	}
	if _, err := usedRights("what is this\n"); err == nil {
		t.Error("a log that cannot be read says that nothing is used")
	}
}

func TestRequestsThatWereDeniedAreNamed(t *testing.T) {
	const line = `{"verb":"list","requestURI":"/api/v1/secrets","requestReceivedTimestamp":"2026-05-01T10:00:00.000000Z"}` + "\n"
	at := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for since, want := range map[time.Time]int{at.Add(-time.Minute): 2, at.Add(time.Minute): 0} {
		if got, err := deniedRequests(line+line, since); err != nil || len(got) != want {
			t.Errorf("since %s: %v, %v", since, got, err)
		}
	}
	if _, err := deniedRequests("{", at); err == nil {
		t.Error("what cannot be read is passed over")
	}
}

func TestTheRightsOfTheTreeAreRead(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	granted, err := (&Cluster{Root: root}).grantedRights()
	if err != nil || len(granted) < 50 {
		t.Errorf("%d rights, %v", len(granted), err)
	}
}
