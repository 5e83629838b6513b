package users

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

func account(password string) acl.User {
	return acl.Account(&v1alpha1.RedisUser{
		ObjectMeta: metav1.ObjectMeta{Name: "carts-app"}, Spec: v1alpha1.RedisUserSpec{Categories: []v1alpha1.RedisCategory{"read"}},
	}, password)
}

// inPlace is a user that is as specified.
func inPlace() *State {
	s := &State{
		Name: "carts-app", Username: "carts-app", ClusterName: "carts", Want: account("secret"), Protected: true, Published: true,
		Cluster: &Cluster{Auth: true, Copies: 2},
	}
	for _, name := range []string{"carts-0-0", "carts-0-1"} {
		s.Cluster.Pods = append(s.Cluster.Pods, model.Pod{
			Name: name, Node: &model.Node{Engine: v1alpha1.EngineRedis, Version: "8.0.2", Users: []acl.User{{Name: acl.UserDefault}, account("secret")}},
		})
	}
	return s
}

func (s *State) users(pod int) *[]acl.User { return &s.Cluster.Pods[pod].Node.Users }

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*State)
		want  string // the step, or the reason
	}{
		"as specified":                  {func(*State) {}, ""},
		"no cluster":                    {func(s *State) { s.Cluster = nil }, ReasonNoCluster},
		"a cluster that goes":           {func(s *State) { s.Cluster.Leaving = true }, ReasonNoCluster},
		"a cluster without passwords":   {func(s *State) { s.Cluster.Auth = false }, ReasonAuthOff},
		"a paused cluster":              {func(s *State) { s.Cluster.Paused = true; *s.users(0) = nil }, "Paused"},
		"an older resource":             {func(s *State) { s.Rival = &Rival{Name: "older"} }, ReasonRival},
		"a user of somebody else":       {func(s *State) { (*s.users(1))[1].Selectors = nil }, ReasonForeign},
		"a user of another resource":    {func(s *State) { s.Name = "other" }, ReasonForeign},
		"not protected yet":             {func(s *State) { s.Protected = false; *s.users(0) = []acl.User{} }, "add the finalizer"},
		"a server lacks it":             {func(s *State) { *s.users(1) = []acl.User{} }, "set users carts-app of carts-0-1"},
		"another password":              {func(s *State) { s.Want = account("other") }, "set users carts-app of carts-0-0, carts-app of carts-0-1"},
		"switched off by hand":          {func(s *State) { (*s.users(0))[1].On = false }, "set users carts-app of carts-0-0"},
		"one lacks it, one is away":     {func(s *State) { *s.users(1) = []acl.User{}; s.Cluster.Pods[0].Node = nil }, "set users carts-app of carts-0-1"},
		"a server is away":              {func(s *State) { s.Cluster.Pods[0].Node = nil }, ReasonUnreachable},
		"a server that tells no users":  {func(s *State) { *s.users(0) = nil }, ReasonUnreachable},
		"a pod is missing":              {func(s *State) { s.Cluster.Pods = s.Cluster.Pods[:1] }, ReasonUnreachable},
		"no Secret yet":                 {func(s *State) { s.Published = false }, "write the connection Secret"},
		"deleted":                       {func(s *State) { s.Deleting = true }, "delete users carts-app of carts-0-0, carts-app of carts-0-1"},
		"deleted, one is away":          {func(s *State) { s.Deleting = true; s.Cluster.Pods[0].Node = nil }, "delete users carts-app of carts-0-1"},
		"deleted, and only that one":    {func(s *State) { s.Deleting = true; s.Cluster.Pods[0].Node = nil; *s.users(1) = []acl.User{} }, ReasonUnreachable},
		"deleted everywhere":            {func(s *State) { s.Deleting = true; *s.users(0) = []acl.User{}; *s.users(1) = []acl.User{} }, "remove the finalizer"},
		"deleted, a pod is missing":     {func(s *State) { s.Deleting = true; s.Cluster.Pods = s.Cluster.Pods[:1]; *s.users(0) = []acl.User{} }, "remove the finalizer"},
		"deleted, of somebody else":     {func(s *State) { s.Deleting = true; s.Name = "other" }, "remove the finalizer"},
		"deleted with its cluster":      {func(s *State) { s.Deleting = true; s.Cluster.Leaving = true }, "remove the finalizer"},
		"deleted while that is paused":  {func(s *State) { s.Deleting = true; s.Cluster.Paused = true }, "Paused"},
		"deleted after the cluster was": {func(s *State) { s.Deleting = true; s.Cluster = nil }, "remove the finalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := inPlace()
			tc.spoil(s)
			p := Next(*s)
			got := p.Reason
			if p.Step != nil {
				got = p.Step.String()
			}
			if got != tc.want {
				t.Errorf("%q (%s), want %q", got, p.Message, tc.want)
			}
		})
	}
}
