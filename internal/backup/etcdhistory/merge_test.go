package etcdhistory_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

// stored has a segment for each pair of revisions, each with leases, begun a minute after the one before.
func stored(t *testing.T, pairs ...int64) *memory {
	t.Helper()
	m := &memory{objects: map[string][]byte{}}
	for i, n := range names(pairs...) {
		var all []etcdhistory.Record
		for r := n.From + 1; r <= n.To; r++ {
			all = append(all, put(r, 0), put(r, 1), gone(r, 2))
		}
		all = append(all, granted(all[len(all)-1], n.To, 60))
		h := header(n.From)
		h.Began = began.Add(time.Duration(i) * time.Minute)
		m.objects[n.String()] = etcdhistory.Encode(t, h, all)
	}
	return m
}

// replayed is everything from a revision to a target.
func replayed(t *testing.T, m *memory, base int64, target etcdhistory.Target) (out []etcdhistory.Record) {
	t.Helper()
	objects, _ := m.List(t.Context(), "")
	chain, err := etcdhistory.Chain(etcdhistory.Names(objects, timeline), base, 0)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range etcdhistory.Replay(t.Context(), m, chain, base, target) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func (m *memory) names() (out []string) {
	for name := range m.objects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// named are the names of segments as a store has them.
func named(pairs ...int64) (out []string) {
	for _, n := range names(pairs...) {
		out = append(out, n.String())
	}
	return out
}

// all merges everything that was begun in the same hour.
func all() etcdhistory.Merging {
	return etcdhistory.Merging{Timeline: timeline, Span: time.Hour, Before: began.Add(1000 * time.Hour), Size: 1 << 30}
}

func TestMergedSegmentsHoldTheSame(t *testing.T) {
	m := stored(t, 1, 10, 10, 20, 20, 35, 35, 36)
	before := replayed(t, m, 1, etcdhistory.Target{})
	got, err := etcdhistory.Merge(t.Context(), m, all())
	if err != nil || !slices.Equal(got, names(1, 36)) || !slices.Equal(m.names(), named(1, 36)) {
		t.Fatalf("%v, %v: %v", got, err, m.names())
	}
	if diff := cmp.Diff(before, replayed(t, m, 1, etcdhistory.Target{}), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if again, err := etcdhistory.Merge(t.Context(), m, all()); err != nil || len(again) > 0 {
		t.Errorf("merged again: %v, %v", again, err)
	}
}

func TestOnlyWhatBelongsTogetherIsMerged(t *testing.T) {
	for name, c := range map[string]struct {
		pairs  []int64
		change func(*etcdhistory.Merging)
		want   []string
	}{
		"not across a hole":     {[]int64{1, 10, 10, 20, 21, 30, 30, 40}, func(*etcdhistory.Merging) {}, named(1, 20, 21, 40)},
		"not across a span":     {[]int64{1, 10, 10, 20, 20, 30, 30, 40}, func(m *etcdhistory.Merging) { m.Span = 2 * time.Minute }, named(1, 20, 20, 40)},
		"not what is too young": {[]int64{1, 10, 10, 20, 20, 30}, func(m *etcdhistory.Merging) { m.Before = began.Add(time.Minute) }, named(1, 20, 20, 30)},
		"not beyond a size":     {[]int64{1, 10, 10, 20, 20, 30}, func(m *etcdhistory.Merging) { m.Size = 2200 }, named(1, 20, 20, 30)},
		"not what overlaps":     {[]int64{1, 10, 5, 20, 20, 30}, func(*etcdhistory.Merging) {}, named(1, 10, 5, 30)},
	} {
		m := stored(t, c.pairs...)
		merging := all()
		c.change(&merging)
		if got, err := etcdhistory.Merge(t.Context(), m, merging); err != nil || !slices.Equal(m.names(), c.want) {
			t.Errorf("%s: %v, %v: %v, sizes %v", name, got, err, m.names(), len(m.objects[m.names()[0]]))
		}
	}
}

func TestAMergeThatWasStoppedIsFinished(t *testing.T) {
	m := stored(t, 1, 10, 10, 20, 20, 30)
	before := replayed(t, m, 1, etcdhistory.Target{})
	m.forbidden = true
	if _, err := etcdhistory.Merge(t.Context(), m, all()); err == nil {
		t.Fatal("nothing can be deleted, and it is no error")
	}
	if got := m.names(); !slices.Equal(got, named(1, 10, 1, 30, 10, 20, 20, 30)) {
		t.Fatalf("%v", got)
	}
	if diff := cmp.Diff(before, replayed(t, m, 1, etcdhistory.Target{}), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	m.forbidden = false
	if _, err := etcdhistory.Merge(t.Context(), m, all()); err != nil || !slices.Equal(m.names(), named(1, 30)) {
		t.Errorf("%v: %v", err, m.names())
	}
}

func TestPartsStayWhileTheWholeIsDamaged(t *testing.T) {
	m := stored(t, 1, 10, 10, 20, 1, 20)
	whole := names(1, 20)[0].String()
	m.objects[whole][100] ^= 1
	if _, err := etcdhistory.Merge(t.Context(), m, all()); err != nil {
		t.Fatal(err)
	}
	if got := m.names(); !slices.Equal(got, named(1, 10, 1, 20, 10, 20)) {
		t.Errorf("%v", got)
	}
}

func TestADamagedPartIsNotMerged(t *testing.T) {
	m := stored(t, 1, 10, 10, 20)
	part := m.objects[names(10, 20)[0].String()]
	part[len(part)-1] ^= 1
	if _, err := etcdhistory.Merge(t.Context(), m, all()); !errors.Is(err, etcdhistory.ErrDamaged) {
		t.Errorf("%v", err)
	}
	if got := m.names(); !slices.Equal(got, named(1, 10, 10, 20)) {
		t.Errorf("%v", got)
	}
}

// revisions are those of the changes, each once.
func revisions(records []etcdhistory.Record) (out []int64) {
	for _, r := range records {
		if r.Kind != etcdhistory.Granted && (len(out) == 0 || out[len(out)-1] != r.Revision) {
			out = append(out, r.Revision)
		}
	}
	return out
}

func TestAReplayEndsAtItsTarget(t *testing.T) {
	m := stored(t, 1, 5, 4, 8, 8, 10)
	for name, c := range map[string]struct {
		target etcdhistory.Target
		want   []int64
		beyond bool
	}{
		"everything":       {etcdhistory.Target{}, []int64{3, 4, 5, 6, 7, 8, 9, 10}, false},
		"a revision":       {etcdhistory.Target{Revision: 6}, []int64{3, 4, 5, 6}, true},
		"the last":         {etcdhistory.Target{Revision: 10}, []int64{3, 4, 5, 6, 7, 8, 9, 10}, false},
		"a border":         {etcdhistory.Target{Revision: 5}, []int64{3, 4, 5}, true},
		"a time":           {etcdhistory.Target{Time: put(7, 0).Time}, []int64{3, 4, 5, 6, 7}, true},
		"just before":      {etcdhistory.Target{Time: put(7, 0).Time.Add(-1)}, []int64{3, 4, 5, 6}, true},
		"a later time":     {etcdhistory.Target{Time: began.Add(time.Hour)}, []int64{3, 4, 5, 6, 7, 8, 9, 10}, false},
		"nothing at first": {etcdhistory.Target{Time: began}, nil, true},
	} {
		records := replayed(t, m, 2, c.target)
		beyond := len(records) > 0 && records[len(records)-1].Kind == etcdhistory.Beyond
		got := revisions(records)
		if beyond {
			got = got[:len(got)-1]
		}
		if !slices.Equal(got, c.want) || beyond != c.beyond {
			t.Errorf("%s: %v, beyond %v; want %v, %v", name, got, beyond, c.want, c.beyond)
		}
	}
}

func TestAClockThatGoesBackDoesNotHideRevisions(t *testing.T) {
	late, early := put(11, 0), put(12, 0)
	early.Time = late.Time.Add(-time.Hour)
	m := &memory{objects: map[string][]byte{
		names(10, 12)[0].String(): etcdhistory.Encode(t, header(10), []etcdhistory.Record{late, early, put(13, 0)}[:2]),
	}}
	if got := revisions(replayed(t, m, 10, etcdhistory.Target{Time: early.Time})); !slices.Equal(got, []int64{11}) { // As Beyond.
		t.Errorf("%v", got)
	}
	records := replayed(t, m, 10, etcdhistory.Target{Time: late.Time})
	if got := revisions(records); !slices.Equal(got, []int64{11, 12}) || !records[1].Time.Equal(late.Time) {
		t.Errorf("%v", records)
	}
}

func TestAReplayFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*memory)
		want error
	}{
		"a bit flipped behind the target": {func(m *memory) { m.objects[named(10, 20)[0]][500] ^= 1 }, etcdhistory.ErrDamaged},
		"another one's name":              {func(m *memory) { m.objects[named(10, 20)[0]] = m.objects[named(1, 10)[0]] }, etcdhistory.ErrDamaged},
		"a shorter one":                   {func(m *memory) { m.objects[named(10, 20)[0]] = stored(t, 10, 15).objects[named(10, 15)[0]] }, etcdhistory.ErrDamaged},
		"another timeline": {func(m *memory) {
			raw := m.objects[named(10, 20)[0]]
			m.objects[named(10, 20)[0]] = etcdhistory.Encode(t, etcdhistory.Header{Timeline: "b", From: 10, Began: began}, decoded(t, raw))
		}, etcdhistory.ErrDamaged},
	} {
		m := stored(t, 1, 10, 10, 20)
		c.harm(m)
		var err error
		for _, e := range etcdhistory.Replay(t.Context(), m, names(1, 10, 10, 20), 1, etcdhistory.Target{Revision: 11}) {
			err = e
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := stored(t, 1, 10, 12, 20)
	var err error
	for _, e := range etcdhistory.Replay(t.Context(), m, names(1, 10, 12, 20), 1, etcdhistory.Target{}) {
		err = e
	}
	if !errors.Is(err, etcdhistory.ErrGap) {
		t.Errorf("a chain with a hole: %v", err)
	}
}

func decoded(t *testing.T, raw []byte) []etcdhistory.Record {
	t.Helper()
	_, out, err := readAll(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// merging is a store in which segments are merged while they are read: right before one of them is opened.
type merging struct {
	*memory
	before map[string]func()
}

func (m *merging) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if do := m.before[name]; do != nil {
		delete(m.before, name)
		do()
	}
	return m.memory.Open(ctx, name)
}

func TestAReplayGoesOnWhereSegmentsWereMerged(t *testing.T) {
	m := &merging{memory: stored(t, 1, 10, 10, 20, 20, 35, 35, 36)}
	want := replayed(t, m.memory, 5, etcdhistory.Target{Revision: 34})
	m.before = map[string]func(){named(10, 20)[0]: func() {
		if got, err := etcdhistory.Merge(t.Context(), m.memory, all()); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
	}}
	var got []etcdhistory.Record
	for r, err := range etcdhistory.Follow(t.Context(), m, etcdhistory.Span{Timeline: timeline, After: 5, To: 36}, etcdhistory.Target{Revision: 34}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(m.before) > 0 || !slices.Equal(revisions(got), revisions(want)) {
		t.Errorf("%v, want %v", revisions(got), revisions(want))
	}
	m.before = map[string]func(){named(1, 36)[0]: func() { m.objects = map[string][]byte{} }}
	var last error
	for _, err := range etcdhistory.Follow(t.Context(), m, etcdhistory.Span{Timeline: timeline, After: 5, To: 36}, etcdhistory.Target{}) {
		last = err
	}
	if !errors.Is(last, etcdhistory.ErrGap) {
		t.Errorf("when everything is gone: %v", last)
	}
}
