package rediscluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// mute is a server that does not answer within the two seconds that it is asked for.
type mute struct{ steps.Client }

func (mute) Read(ctx context.Context) (*model.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	<-ctx.Done()
	return nil, fmt.Errorf("read: %w", context.Cause(ctx))
}

func (mute) Close() error { return nil }

func TestAServerThatIsSilentIsNotWaitedForWhileThePrimaryChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []cluster.Step
		want  time.Duration
	}{
		"nothing was done":                     {nil, 2 * time.Second},
		"another step was taken":               {[]cluster.Step{steps.Follow{}}, 2 * time.Second},
		"a server was named":                   {[]cluster.Step{steps.Appoint{}}, silentTimeout},
		"a server was promoted":                {[]cluster.Step{steps.Promote{}}, silentTimeout},
		"a former primary is to end":           {[]cluster.Step{steps.End{Former: true}}, silentTimeout},
		"a server that hangs is to end":        {[]cluster.Step{steps.End{}}, 2 * time.Second},
		"another step was taken in between":    {[]cluster.Step{steps.Promote{}, steps.Follow{}}, silentTimeout},
		"the servers were read after the step": {[]cluster.Step{steps.Promote{}, nil}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := New(ownedtest.New(fakeapi.New(t)))
				k.Connect = func(redisclient.Options) steps.Client { return mute{} }
				var s silence
				read := func() (took time.Duration) {
					began := time.Now()
					st := model.State{Pods: []model.Pod{{Name: "carts-0-0", UID: "u", Addr: model.Address{IP: "10.0.0.1"}}}}
					k.readServersExcept(t.Context(), func(string, endpoint) redisclient.Options { return redisclient.Options{} }, &st, s.expected())
					s.watch(st.Pods)
					if st.Pods[0].Node != nil || !st.Pods[0].TimedOut {
						t.Errorf("it was read: %+v", st.Pods[0])
					}
					return time.Since(began)
				}
				read()
				for _, step := range tc.steps {
					if step == nil {
						read()
						continue
					}
					s.note(step)
				}
				if got := read(); got != tc.want {
					t.Errorf("it was waited for for %s, want %s", got, tc.want)
				}
			})
		})
	}
}
