package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// listTimeout bounds the reading of the cache at a scrape. It has to answer at once.
const listTimeout = 5 * time.Second

// Objects are those that metrics tell about. They are read only: they may be the cache's own.
type Objects struct {
	Etcd      []v1alpha1.EtcdCluster
	EtcdUsers []v1alpha1.EtcdUser
	Redis     []v1alpha1.RedisCluster
	// RedisUsers likewise.
	RedisUsers []v1alpha1.RedisUser
	Backups    []v1alpha1.Backup
	Schedules  []v1alpha1.BackupSchedule
	Restores   []v1alpha1.Restore
	// Autoscalers likewise.
	Autoscalers []v1alpha1.Autoscaler
}

// Options of the metrics.
type Options struct {
	// Version of the manager.
	Version string
	// List reads all objects from the cache. It is called at every scrape while Leads is true.
	List func(context.Context) (Objects, error)
	// Leads tells whether this manager holds the lease.
	Leads func() bool
	// Now is the time, Ahead how far the clock of this machine is ahead of the API server's, if that is known.
	Now   func() time.Time
	Ahead func() (time.Duration, bool)
}

// Metrics of one manager. The methods that note something do nothing on nil.
type Metrics struct {
	o            Options
	readFailures prometheus.Counter
	steps        *prometheus.CounterVec
	stepSeconds  *prometheus.HistogramVec
	callSeconds  *prometheus.HistogramVec
	callErrors   *prometheus.CounterVec

	mu   sync.Mutex
	seen map[object]*history
}

var _ prometheus.Collector = (*Metrics)(nil)

// Steps take from milliseconds to the seconds of a failover; calls rarely take more than their time limit of seconds.
var (
	stepBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
)

// New returns metrics that count, and that read the rest when they are scraped.
func New(o Options) *Metrics {
	return &Metrics{
		o:            o,
		readFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: readFailures.Name, Help: readFailures.Help}),
		steps:        counters(steps),
		stepSeconds:  histograms(stepSeconds, stepBuckets),
		callSeconds:  histograms(callSeconds, callBuckets),
		callErrors:   counters(callErrors),
		seen:         map[object]*history{},
	}
}

func counters(d *Definition) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

func histograms(d *Definition, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
}

func (m *Metrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.readFailures, m.steps, m.stepSeconds, m.callSeconds, m.callErrors}
}

// Describe tells all metrics that there may be.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range defined {
		out <- d.desc
	}
}

// Collect tells everything that there is to tell now.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	s := sink{out}
	s.tell(buildInfo, 1, m.o.Version)
	leads := m.o.Leads()
	s.tell(leading, flag(leads))
	if ahead, known := m.o.Ahead(); known {
		s.tell(clockAhead, ahead.Seconds())
	}
	if leads {
		m.collectObjects(s)
	}
	for _, c := range m.counted() {
		c.Collect(out)
	}
}

func (m *Metrics) collectObjects(s sink) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), listTimeout, errors.New("the cache does not answer")) // A scrape has no context to pass on.
	defer cancel()
	objects, err := m.o.List(ctx)
	if err != nil {
		m.readFailures.Inc() // A failed scrape would hide everything else as well.
		return
	}
	s.objects(objects)
	m.remembered(s, objects)
}

// Begin notes that a step of an object is being carried out. What it returns notes what became of the step.
func (m *Metrics) Begin(kind string, uid types.UID, step cluster.Step) func(error) {
	if m == nil {
		return func(error) {}
	}
	began := m.o.Now()
	return func(err error) {
		took := m.o.Now().Sub(began)
		meta := step.Meta()
		m.steps.WithLabelValues(kind, meta.Reason, result(err)).Inc()
		m.stepSeconds.WithLabelValues(kind, meta.Reason).Observe(took.Seconds())
		if meta.HandsOver && err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.history(kind, uid).handover.note(took)
		}
	}
}

// result is what became of a step.
func result(err error) string {
	var (
		refusal cluster.Refusal
		hold    cluster.Hold
	)
	switch {
	case err == nil:
		return "Done"
	case errors.As(err, &refusal):
		return "Refused"
	case errors.As(err, &hold):
		return "Held"
	}
	return "Failed"
}

// Caller returns what notes the calls to data stores of one sort, etcd or redis.
func (m *Metrics) Caller(datastore string) func(call string, took time.Duration, err error) {
	return func(call string, took time.Duration, err error) {
		if m == nil {
			return
		}
		m.callSeconds.WithLabelValues(datastore, call).Observe(took.Seconds())
		if err != nil {
			m.callErrors.WithLabelValues(datastore, call).Inc()
		}
	}
}

// sink is where metrics of one scrape go.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) tell(d *Definition, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d.desc, prometheus.GaugeValue, value, labels...)
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
