package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// maxTermination is what Kubernetes keeps of a termination message.
const maxTermination = 4096

func TestReportsAreReadBack(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 7, time.UTC)
	stored := &Stored{
		Directory: "orders-1", Kind: "EtcdCluster", Cluster: strings.Repeat("o", 40), Engine: "etcd", Version: "3.6.16", Size: 1 << 40, StoredSize: 1 << 39,
		Revision: 1<<63 - 1, Timeline: strings.Repeat("f", 64), Keys: 9, Shards: 500, Skew: time.Second, Memory: 1 << 41, Started: at, Finished: at,
	}
	for name, r := range map[string]Report{
		"taken":    {Backup: stored},
		"found":    {Backup: stored, Target: 7},
		"checked":  {Backup: stored, Checked: &Checked{Time: at, Took: time.Hour, Keys: 1, Revision: 2, Server: "etcd 3.6.16"}},
		"restored": {Restored: &Restored{Keys: 1, Present: 2, Expired: 3, Revision: 4, Took: time.Second, Users: strings.Repeat("u", 20*70)}},
		"failed":   {Problem: &Problem{Reason: "NotAllowed", Message: "no \"right\"\n<b>\x00", Final: true}},
	} {
		text := r.Encode()
		got, ok := ParseReport(text)
		if diff := cmp.Diff(r, got); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(text) > maxTermination {
			t.Errorf("%s has %d bytes: Kubernetes cuts it off", name, len(text))
		}
	}
}

// With FallbackToLogsOnError the message may be the end of a log, and whatever a program prints that was killed.
func TestWhatIsNoReportIsNotTakenForOne(t *testing.T) {
	whole := Report{Backup: &Stored{Directory: "orders-1", Kind: "EtcdCluster"}}.Encode()
	for _, text := range []string{
		"", "null", "{}", "[]", "7", `"complete"`, "panic: runtime error", "12:00:00 complete: revision 7\n", whole[:len(whole)-1], whole + whole,
		`{"backup":null}`, `{"backup":{"size":"large"}}`, `{"backup":[]}`, `{"else":1}`, strings.Repeat("{", 1<<16), "\xff\xfe",
		"log line\n" + whole,
	} {
		if r, ok := ParseReport(text); ok {
			t.Errorf("%.60q is read as %+v", text, r)
		}
	}
}

// What a report lacks that counts must not be taken for success.
func FuzzAReportIsReadOrRefused(f *testing.F) {
	f.Add(Report{Problem: &Problem{Reason: "NotAllowed", Message: "no"}}.Encode())
	f.Add(Report{Backup: &Stored{Directory: "orders-1"}, Checked: &Checked{Keys: 1}}.Encode())
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := ParseReport(text)
		if !ok {
			return
		}
		again, ok := ParseReport(r.Encode())
		if diff := cmp.Diff(r, again); !ok || diff != "" {
			t.Errorf("%q (-read +read again):\n%s", text, diff)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 30: "1.0 GiB", 1 << 50: "1.0 PiB", 1<<63 - 1: "8192.0 PiB", -1: "-1 B",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
