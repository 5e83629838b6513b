package tls

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newAuthority(t *testing.T, at time.Time) Pair {
	t.Helper()
	ca, err := NewCA("test", at)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestAnAuthorityIsReplacedInThreePhases(t *testing.T) {
	old, next := newAuthority(t, now), newAuthority(t, now.Add(time.Hour))
	since := now.Add(2 * time.Hour)
	settled := Authority{Signing: old}
	introduced := Authority{Signing: old, Next: next}
	waiting := Authority{Signing: old, Next: next, HandedOut: since}
	replaced := Authority{Signing: next, Retired: old.Cert}
	leaving := Authority{Signing: next, Retired: old.Cert, HandedOut: since}
	const hold = 5 * time.Minute
	after := func(d time.Duration) Facts {
		return Facts{Hold: hold, HandedOut: true, InForce: true, Now: since.Add(d)}
	}
	tests := map[string]struct {
		from  Authority
		facts Facts
		want  Authority
	}{
		"at rest nothing changes":                   {settled, after(0), settled},
		"what is not handed out yet":                {introduced, Facts{Hold: hold, InForce: true, Now: since}, introduced},
		"all is handed out":                         {introduced, after(400 * time.Millisecond), waiting},
		"not in force everywhere":                   {waiting, Facts{Hold: hold, HandedOut: true, Now: since.Add(time.Hour)}, waiting},
		"clients need time":                         {waiting, after(hold - time.Second), waiting},
		"clients had time":                          {waiting, after(hold), replaced},
		"a server has just come back":               {waiting, Facts{Hold: hold, HandedOut: true, InForce: true, Calm: since.Add(hold), Now: since.Add(hold)}, waiting},
		"a Secret was lost meanwhile":               {waiting, Facts{Hold: hold, InForce: true, Now: since.Add(hold)}, introduced},
		"leafs are not handed out yet":              {replaced, Facts{Hold: hold, InForce: true, Now: since}, replaced},
		"leafs are handed out":                      {replaced, after(0), leaving},
		"leafs need time":                           {leaving, after(hold - time.Second), leaving},
		"nobody shows a leaf of the old one":        {leaving, after(hold), Authority{Signing: next}},
		"a wish does not disturb what is under way": {waiting, Facts{Hold: hold, After: since, HandedOut: true, Now: since.Add(hold)}, waiting},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.from.Advance(tc.facts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhenAnAuthorityIsDue(t *testing.T) {
	a := Authority{Signing: newAuthority(t, now)}
	tests := map[string]struct {
		wish time.Time
		at   time.Time
		due  bool
	}{
		"a fresh one":                         {time.Time{}, now, false},
		"two thirds of its life is fine":      {time.Time{}, now.Add(CAValidity / 100 * 60), false},
		"a third of its life left":            {time.Time{}, now.Add(CAValidity / 100 * 70), true},
		"long expired":                        {time.Time{}, now.Add(2 * CAValidity), true},
		"a wish for later":                    {now.Add(2 * time.Hour), now.Add(time.Hour), false},
		"a wish that has come":                {now.Add(time.Hour), now.Add(time.Hour), true},
		"a wish from before it was made":      {now.Add(-time.Second), now.Add(time.Hour), false},
		"a wish from the second it was made":  {now, now.Add(time.Hour), false},
		"a wish from the second after it was": {now.Add(time.Second), now.Add(time.Hour), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := a.Advance(Facts{After: tc.wish, Now: tc.at})
			if err != nil {
				t.Fatal(err)
			}
			if (got.Phase() == Introduced) != tc.due {
				t.Fatalf("phase %s", got.Phase())
			}
			if tc.due && (!bytes.Equal(got.Signing.Cert, a.Signing.Cert) || bytes.Equal(got.Next.Cert, a.Signing.Cert)) {
				t.Error("the new authority signs at once, or is the old one")
			}
		})
	}
	if _, err := (Authority{}).Advance(Facts{}); err == nil {
		t.Error("an unreadable authority was replaced")
	}
}

// A wish is fulfilled once: the authority that it brought is not older than the wish.
func TestAWishIsFulfilledOnce(t *testing.T) {
	a := Authority{Signing: newAuthority(t, now)}
	at := now.Add(time.Hour + 300*time.Millisecond)
	f := Facts{After: now.Add(time.Hour), HandedOut: true, InForce: true, Now: at}
	var err error
	for range 20 {
		if a, err = a.Advance(f); err != nil {
			t.Fatal(err)
		}
	}
	first := a
	if a.Phase() != Settled {
		t.Fatalf("phase %s", a.Phase())
	}
	f.Now = at.Add(24 * time.Hour)
	if a, err = a.Advance(f); err != nil || !cmp.Equal(first, a) {
		t.Errorf("it is replaced again, %v", err)
	}
}

func TestABundleHoldsWhomToTrust(t *testing.T) {
	old, next := newAuthority(t, now), newAuthority(t, now)
	both := Fingerprint(slices.Concat(old.Cert, next.Cert))
	tests := map[string]struct {
		a    Authority
		want string
	}{
		"at rest":    {Authority{Signing: old}, Fingerprint(old.Cert)},
		"introduced": {Authority{Signing: old, Next: next}, both},
		"replaced":   {Authority{Signing: next, Retired: old.Cert}, both},
		"at last":    {Authority{Signing: next}, Fingerprint(next.Cert)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bundle := tc.a.Bundle()
			if got := Fingerprint(bundle); got != tc.want {
				t.Errorf("fingerprint %s, want %s", got, tc.want)
			}
			if !bytes.HasPrefix(bundle, tc.a.Signing.Cert) {
				t.Error("the authority that signs is not the first")
			}
			if strings.Contains(string(bundle), "PRIVATE") {
				t.Error("a key is handed out")
			}
		})
	}
}

func TestAFingerprintIsThatOfASet(t *testing.T) {
	a, b := newAuthority(t, now), newAuthority(t, now)
	ab := Fingerprint(slices.Concat(a.Cert, b.Cert))
	same := map[string][]byte{
		"the other order": slices.Concat(b.Cert, a.Cert),
		"one of it twice": slices.Concat(a.Cert, b.Cert, a.Cert),
		"with a comment":  slices.Concat([]byte("# ours\n"), a.Cert, []byte("\n# theirs\n"), b.Cert),
	}
	for name, bundle := range same {
		if got := Fingerprint(bundle); got != ab {
			t.Errorf("%s gives %s, not %s", name, got, ab)
		}
	}
	if Fingerprint(a.Cert) == ab || Fingerprint(a.Cert) == Fingerprint(b.Cert) {
		t.Error("different sets have the same fingerprint")
	}
	for _, nothing := range [][]byte{nil, []byte("x"), a.Key} {
		if got := Fingerprint(nothing); got != "" {
			t.Errorf("no certificate gives %q", got)
		}
	}
}

func TestExpiryIsThatOfTheLeafAndItsAuthority(t *testing.T) {
	ca, issued := pairs(t)
	other := newAuthority(t, now.Add(time.Hour))
	tests := map[string]struct {
		bundle, leaf []byte
		at           time.Time
		want         Expiry
		due          bool
	}{
		"fresh":                {ca.Cert, issued.Cert, now, Expiry{now.Add(CAValidity), now.Add(LeafValidity)}, false},
		"a quarter left":       {ca.Cert, issued.Cert, now.Add(LeafValidity * 75 / 100), Expiry{now.Add(CAValidity), now.Add(LeafValidity)}, false},
		"a sixth left":         {ca.Cert, issued.Cert, now.Add(LeafValidity * 83 / 100), Expiry{now.Add(CAValidity), now.Add(LeafValidity)}, true},
		"another one beside":   {slices.Concat(other.Cert, ca.Cert), issued.Cert, now, Expiry{now.Add(CAValidity), now.Add(LeafValidity)}, false},
		"an unknown authority": {other.Cert, issued.Cert, now, Expiry{Leaf: now.Add(LeafValidity)}, false},
		"no leaf":              {ca.Cert, nil, now, Expiry{}, false},
		"garbage":              {[]byte("x"), []byte("y"), now, Expiry{}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, due := ExpiryOf(tc.bundle, tc.leaf, tc.at)
			if diff := cmp.Diff(tc.want, got); diff != "" || due != tc.due {
				t.Errorf("due %t, (-want +got):\n%s", due, diff)
			}
		})
	}
}
