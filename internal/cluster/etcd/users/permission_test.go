package users

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
)

const (
	r  = v1alpha1.EtcdRead
	w  = v1alpha1.EtcdWrite
	rw = v1alpha1.EtcdReadWrite
)

func TestPermissionsAreWhatEtcdCanHold(t *testing.T) {
	prefix := func(s string, a v1alpha1.EtcdAccess) v1alpha1.EtcdPermission {
		return v1alpha1.EtcdPermission{Prefix: &s, Access: a}
	}
	for name, tc := range map[string]struct {
		list []v1alpha1.EtcdPermission
		want []Permission
	}{
		"nothing": {nil, []Permission{}},
		"one of each": {
			[]v1alpha1.EtcdPermission{
				{Range: &v1alpha1.EtcdKeyRange{From: "a", To: ptr.To("b")}, Access: w},
				{Range: &v1alpha1.EtcdKeyRange{From: "\x00"}, Access: r},
				prefix("/app/", rw),
				{Key: ptr.To("/flag"), Access: r},
			},
			[]Permission{{Keys{"\x00", "\x00"}, r}, {Keys{"/app/", "/app0"}, rw}, {Keys{"/flag", ""}, r}, {Keys{"a", "b"}, w}},
		},
		"the same keys twice":           {[]v1alpha1.EtcdPermission{prefix("a", r), prefix("a", w)}, []Permission{{Keys{"a", "b"}, rw}}},
		"the very same twice":           {[]v1alpha1.EtcdPermission{prefix("a", r), prefix("a", r)}, []Permission{{Keys{"a", "b"}, r}}},
		"the same keys in other words":  {[]v1alpha1.EtcdPermission{prefix("a", r), {Range: &v1alpha1.EtcdKeyRange{From: "a", To: ptr.To("b")}, Access: rw}}, []Permission{{Keys{"a", "b"}, rw}}},
		"a prefix and a key beneath it": {[]v1alpha1.EtcdPermission{prefix("a", r), {Key: ptr.To("a"), Access: w}}, []Permission{{Keys{"a", ""}, w}, {Keys{"a", "b"}, r}}},
		"a prefix that is not ASCII":    {[]v1alpha1.EtcdPermission{prefix("ÿ", r)}, []Permission{{Keys{"\xc3\xbf", "\xc3\xc0"}, r}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Permissions(tc.list)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesLeadFromWhatIsToWhatShouldBe(t *testing.T) {
	key, prefix := Keys{"/k", ""}, Keys{"/k", "/l"}
	for name, tc := range map[string]struct {
		have, want []Permission
		changes    []string
	}{
		"nothing to do":  {[]Permission{{key, r}, {prefix, w}}, []Permission{{prefix, w}, {key, r}}, nil},
		"all is missing": {nil, []Permission{{key, r}, {prefix, w}}, []string{`grant Read on key "/k"`, `grant Write on prefix "/k"`}},
		"all is too much": {
			[]Permission{{prefix, w}, {key, r}},
			nil,
			[]string{`revoke Read on key "/k"`, `revoke Write on prefix "/k"`},
		},
		"another access": {[]Permission{{key, rw}}, []Permission{{key, r}}, []string{`grant Read on key "/k"`}},
		"what is missing comes before what is too much": {
			[]Permission{{Keys{"/a", "/b"}, rw}},
			[]Permission{{Keys{"/", "0"}, rw}},
			[]string{`grant ReadWrite on prefix "/"`, `revoke ReadWrite on prefix "/a"`},
		},
		"etcd holds two for the same keys": {
			[]Permission{{key, r}, {prefix, rw}, {prefix, r}},
			[]Permission{{key, r}, {prefix, r}},
			[]string{`revoke Read on prefix "/k"`, `grant Read on prefix "/k"`},
		},
		"two for the same keys, both too much": {
			[]Permission{{prefix, rw}, {prefix, r}}, nil, []string{`revoke ReadWrite on prefix "/k"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range changes(tc.have, tc.want) {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tc.changes, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyChangesStayASentence(t *testing.T) {
	var want []Permission
	for i := range 64 {
		want = append(want, Permission{Keys{From: strings.Repeat("k", 500) + string(rune('A'+i))}, rw})
	}
	text := describe(changes(nil, want))
	if !strings.HasSuffix(text, " and 60 more") || len(text) > 4096 {
		t.Errorf("%d bytes: ...%s", len(text), text[len(text)-20:])
	}
}

func TestKeysReadWell(t *testing.T) {
	for want, k := range map[string]Keys{
		`key "a"`:               {"a", ""},
		`prefix "/app/"`:        {"/app/", "/app0"},
		`all keys from "a"`:     {"a", "\x00"},
		`all keys from "\x00"`:  {"\x00", "\x00"},
		`range "a" to "c"`:      {"a", "c"},
		`prefix "a\xff"`:        {"a\xff", "b"},
		`prefix "\xff"`:         {"\xff", "\x00"},
		`range "/app/" to "/b"`: {"/app/", "/b"},
	} {
		if got := k.String(); got != want {
			t.Errorf("%+v reads %s, want %s", k, got, want)
		}
	}
}
