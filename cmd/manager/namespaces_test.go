package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/test/loopback"
)

// answers are what an API server says about namespaces. It lets those be read that it does not name.
type answers map[string]error

func (a answers) list(_ context.Context, namespace string) error { return a[namespace] }

var (
	clusters  = schema.GroupResource{Group: "quorate.dev", Resource: "etcdclusters"}
	forbidden = apierrors.NewForbidden(clusters, "", errors.New("no Role says so"))
	missing   = apierrors.NewNotFound(clusters, "")
)

func TestNamespacesThatMayNotBeReadAreLeftOut(t *testing.T) {
	t.Parallel()
	watched := []string{"a", "b", "c"}
	for name, tc := range map[string]struct {
		answers    answers
		open, shut string
	}{
		"all may be read":   {nil, "a b c", ""},
		"one has no Role":   {answers{"b": forbidden}, "a c", "b"},
		"there are no CRDs": {answers{"a": missing, "b": missing, "c": missing}, "a b c", ""},
		"none may be read":  {answers{"a": forbidden, "b": forbidden, "c": forbidden}, "", "a b c"},
		"one does not say":  {answers{"a": context.DeadlineExceeded, "b": forbidden}, "a c", "b"},
		"none says":         {answers{"a": errors.New("a"), "b": errors.New("b"), "c": apierrors.NewInternalError(errors.New("c"))}, "a b c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, shut := choose(t.Context(), watched, tc.answers.list)
			if got := strings.Join(open, " "); got != tc.open {
				t.Errorf("it works in %q, want %q", got, tc.open)
			}
			if got := strings.Join(names(shut), " "); got != tc.shut {
				t.Errorf("it leaves out %q, want %q", got, tc.shut)
			}
			for _, b := range shut {
				if !errors.Is(b.answer, tc.answers[b.namespace]) {
					t.Errorf("%s is left out for %v", b.namespace, b.answer)
				}
			}
		})
	}
}

func names(shut []barred) []string {
	var out []string
	for _, b := range shut {
		out = append(out, b.namespace)
	}
	return out
}

func TestNoNamespaceThatMayBeReadNeverMeansAllOfThem(t *testing.T) {
	t.Parallel()
	again, looks := make(chan time.Time, 10), 0
	for range cap(again) {
		again <- time.Time{}
	}
	list := func(_ context.Context, namespace string) error {
		if looks++; looks > 5 && namespace == "b" {
			return nil
		}
		return forbidden
	}
	open, shut, err := wait(t.Context(), "0", []string{"a", "b"}, list, again)
	if err != nil || !slices.Equal(open, []string{"b"}) || !slices.Equal(names(shut), []string{"a"}) || looks != 6 {
		t.Errorf("after %d answers it works in %q without %q, %v", looks, open, names(shut), err)
	}

	ended := errors.New("the manager is ended")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(ended)
	if open, _, err := wait(ctx, "0", []string{"a"}, answers{"a": forbidden}.list, nil); !errors.Is(err, ended) || len(open) > 0 {
		t.Errorf("a manager that is ended goes on with %q, %v", open, err)
	}
}

func TestAManagerThatWaitsLivesAndIsNotReady(t *testing.T) {
	t.Parallel()
	addr := loopback.Address(t)
	hush, err := alive(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusNotFound} {
		if got := status(t, addr, path); got != want {
			t.Errorf("%s answers %d", path, got)
		}
	}
	if _, err := alive(t.Context(), addr); err == nil {
		t.Error("two answer at the same address")
	}
	hush()
	hush, err = alive(t.Context(), addr)
	if err != nil {
		t.Fatalf("the manager cannot take its place: %v", err)
	}
	hush()
}

func TestAManagerEndsWhenANamespaceThatItLeftOutMayBeRead(t *testing.T) {
	t.Parallel()
	again := make(chan time.Time, 10)
	for range cap(again) {
		again <- time.Time{}
	}
	looks := 0
	list := func(_ context.Context, namespace string) error {
		looks++
		switch {
		case namespace == "a":
			return forbidden
		case looks < 6:
			return context.DeadlineExceeded // This is not known to be open.
		}
		return nil
	}
	err := reopen(t.Context(), []barred{{"a", forbidden}, {"b", forbidden}}, list, again)
	if err == nil || !strings.Contains(err.Error(), "namespace b, which was left out, may be read now") {
		t.Errorf("it ends with %v", err)
	}
	if looks != 6 {
		t.Errorf("it looked %d times", looks)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := reopen(ended, []barred{{"a", forbidden}}, answers{}.list, nil); err != nil {
		t.Errorf("a manager that is ended is ended again: %v", err)
	}
}

// namespaces is an API server that lets the manager list the clusters in some namespaces.
func namespaces(t *testing.T, open ...string) (cfg *rest.Config, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		for _, n := range open {
			if strings.HasPrefix(r.URL.Path, "/apis/quorate.dev/v1alpha1/namespaces/"+n+"/") {
				_, _ = fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`)
				return
			}
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(paths)
	}
}

func TestAManagerBeginsWithoutANamespaceThatIsGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		watched  string
		open     []string
		want     []string
		requests int
	}{
		"one of two is gone": {"team-a,team-b", []string{"team-a"}, []string{"team-a"}, 2},
		"both are there":     {"team-a,team-b", []string{"team-a", "team-b"}, []string{"team-a", "team-b"}, 2},
		"all namespaces":     {"", nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			cfg, asked := namespaces(t, tc.open...)
			got, err := admitted(ctx, cfg, options{namespaces: tc.watched, healthAddr: "0"}, stop)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("it works in %q, %v", got, err)
			}
			paths := asked()
			if len(paths) != tc.requests || slices.ContainsFunc(paths, func(p string) bool { return !strings.HasSuffix(p, "/etcdclusters?limit=1") }) {
				t.Errorf("it asks for %q", paths)
			}
			if ctx.Err() != nil {
				t.Errorf("the manager is ended: %v", context.Cause(ctx))
			}
		})
	}
}

func TestAManagerThatMayReadNoNamespaceWaits(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	cfg, _ := namespaces(t)
	addr, ended, result := loopback.Address(t), errors.New("long enough"), make(chan error)
	go func() {
		got, err := admitted(ctx, cfg, options{namespaces: "team-a,team-b", healthAddr: addr}, func(err error) { t.Errorf("the manager is ended: %v", err) })
		if len(got) > 0 {
			err = fmt.Errorf("it works in %q, %w", got, err)
		}
		result <- err
	}()
	for end := time.Now().Add(time.Minute); status(t, addr, "/healthz") != http.StatusOK; {
		if time.Now().After(end) {
			t.Fatal("it does not say that it lives")
		}
	}
	stop(ended)
	if err := <-result; !errors.Is(err, ended) || err.Error() != ended.Error() {
		t.Error(err)
	}
}

// status is what is answered at an address, 0 when nobody listens there.
func status(t *testing.T, addr, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
