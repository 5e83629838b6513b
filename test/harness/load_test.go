package harness

import "testing"

func TestTheSummaryIsFoundWhateverTheClientLogs(t *testing.T) {
	const summary = `{"mode":"etcd","written":7,"acked":7,"checked":true}`
	const noise = `{"level":"info","logger":"etcd-client","msg":"Auto sync endpoints failed."}`
	for name, log := range map[string]string{
		"alone": summary, "at the end": noise + "\n" + summary, "before the end": "progress\n" + summary + "\n" + noise + "\n",
	} {
		if s, err := summaryIn(log); err != nil || !s.Checked || s.Acked != 7 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if s, err := summaryIn(noise); err == nil {
		t.Errorf("found %+v in what is none", s)
	}
}
