package history

import (
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Note counts the outcome of a step, if it is a hand-over.
func Note(f *model.FailedHandOvers, step cluster.Step, err error, now time.Time) {
	if _, ok := step.(steps.HandOver); !ok {
		return
	}
	if *f = (model.FailedHandOvers{Count: f.Count + 1, Last: now}); err == nil {
		*f = model.FailedHandOvers{}
	}
}
