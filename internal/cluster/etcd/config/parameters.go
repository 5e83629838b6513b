package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// parameter is a key of etcd's configuration file that users may set: its type, and the first and last minor version
// of etcd 3 that has it (until 0: still there).
type parameter struct {
	kind         parameterKind
	since, until int
}

// in tells whether a version has the parameter.
func (p parameter) in(v model.Version) bool {
	return v.Minor >= p.since && (p.until == 0 || v.Minor <= p.until)
}

// freeParameters are the keys that spec.config.extra may set, from the JSON tags in server/embed/config.go of 3.5.35,
// 3.6.16 and 3.7.3. etcd silently ignores a key that it does not know, so the operator must not. 3.6 still takes the
// experimental names, but 3.7 does not: here they end with 3.5, so that no cluster gets stuck on its way to 3.7.
var freeParameters = map[string]parameter{
	"backend-batch-interval":        {kindDuration, 5, 0},
	"backend-batch-limit":           {kindInt, 5, 0},
	"backend-bbolt-freelist-type":   {kindString, 5, 0},
	"bcrypt-cost":                   {kindInt, 5, 0},
	"cipher-suites":                 {kindList, 5, 0},
	"enable-grpc-gateway":           {kindBool, 5, 0},
	"grpc-keepalive-interval":       {kindDuration, 5, 0},
	"grpc-keepalive-min-time":       {kindDuration, 5, 0},
	"grpc-keepalive-timeout":        {kindDuration, 5, 0},
	"initial-election-tick-advance": {kindBool, 5, 0},
	"max-concurrent-streams":        {kindInt, 5, 0},
	"max-snapshots":                 {kindInt, 5, 0},
	"max-txn-ops":                   {kindInt, 5, 0},
	"max-wals":                      {kindInt, 5, 0},
	"pre-vote":                      {kindBool, 5, 0},
	"tls-max-version":               {kindString, 5, 0},
	"tls-min-version":               {kindString, 5, 0},

	"experimental-bootstrap-defrag-threshold-megabytes": {kindInt, 5, 5},
	"experimental-compact-hash-check-time":              {kindDuration, 5, 5},
	"experimental-compaction-batch-limit":               {kindInt, 5, 5},
	"experimental-compaction-sleep-interval":            {kindDuration, 5, 5},
	"experimental-corrupt-check-time":                   {kindDuration, 5, 5},
	"experimental-distributed-tracing-address":          {kindString, 5, 5},
	"experimental-distributed-tracing-instance-id":      {kindString, 5, 5},
	"experimental-distributed-tracing-sampling-rate":    {kindInt, 5, 5},
	"experimental-distributed-tracing-service-name":     {kindString, 5, 5},
	"experimental-downgrade-check-time":                 {kindDuration, 5, 5},
	"experimental-enable-distributed-tracing":           {kindBool, 5, 5},
	"experimental-enable-lease-checkpoint":              {kindBool, 5, 5},
	"experimental-enable-lease-checkpoint-persist":      {kindBool, 5, 5},
	"experimental-snapshot-catch-up-entries":            {kindInt, 5, 5},
	"experimental-stop-grpc-service-on-defrag":          {kindBool, 5, 5},
	"experimental-txn-mode-write-with-shared-buffer":    {kindBool, 5, 5},
	"experimental-warning-apply-duration":               {kindDuration, 5, 5},
	"experimental-watch-progress-notify-interval":       {kindDuration, 5, 5},

	"bootstrap-defrag-threshold-megabytes": {kindInt, 6, 0},
	"compact-hash-check-time":              {kindDuration, 6, 0},
	"compaction-batch-limit":               {kindInt, 6, 0},
	"compaction-sleep-interval":            {kindDuration, 6, 0},
	"corrupt-check-time":                   {kindDuration, 6, 0},
	"distributed-tracing-address":          {kindString, 6, 0},
	"distributed-tracing-instance-id":      {kindString, 6, 0},
	"distributed-tracing-sampling-rate":    {kindInt, 6, 0},
	"distributed-tracing-service-name":     {kindString, 6, 0},
	"downgrade-check-time":                 {kindDuration, 6, 0},
	"enable-distributed-tracing":           {kindBool, 6, 0},
	"feature-gates":                        {kindString, 6, 0},
	"snapshot-catchup-entries":             {kindInt, 6, 0},
	"warning-apply-duration":               {kindDuration, 6, 0},
	"warning-unary-request-duration":       {kindDuration, 6, 0},
	"watch-progress-notify-interval":       {kindDuration, 6, 0},
}

// extra checks a free parameter and gives it the type that etcd's decoder expects.
func extra(key, text string, v model.Version) (any, error) {
	if field, ok := TypedConfigKeys[key]; ok {
		return nil, fmt.Errorf("use spec.config.%s instead", field)
	}
	if slices.Contains(OwnedConfigKeys, key) {
		return nil, fmt.Errorf("this parameter belongs to the operator: remove it")
	}
	p, ok := freeParameters[key]
	if !ok {
		return nil, fmt.Errorf("etcd has no such parameter that may be set: check the name")
	}
	// YAML and etcd take some of the others for line breaks, and for spaces around the name of a gate.
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fmt.Errorf("the value holds characters other than printable ASCII: remove them")
	}
	if !p.in(v) {
		return nil, fmt.Errorf("etcd %d.%d has no such parameter%s: remove or rename it", v.Major, v.Minor, renamed(key))
	}
	if key == gatesKey && ownedGate.MatchString(text) {
		return nil, fmt.Errorf("CompactHashCheck and InitialCorruptCheck belong to the operator, and AllAlpha and AllBeta would change them too: " +
			"remove them, and name other gates one by one")
	}
	return p.kind.parse(text)
}

const gatesKey = "feature-gates"

// ownedGate finds a gate that the operator decides on, see corruptionChecks. The rule of the CRD is the same.
var ownedGate = regexp.MustCompile(`(^|[, ])(CompactHashCheck|InitialCorruptCheck|AllAlpha|AllBeta)[ =]`)

func renamed(key string) string {
	if other := otherName(key); other != "" {
		return fmt.Sprintf(" (there it is called %s)", other)
	}
	return ""
}

// otherName is what a parameter was called before 3.6 or is called since, empty when there is no such name.
func otherName(key string) string {
	other := "experimental-" + key
	if name, ok := strings.CutPrefix(key, "experimental-"); ok {
		other = name
	}
	if _, ok := freeParameters[other]; ok {
		return other
	}
	return ""
}

// nameIn is the name of a parameter in a version, empty when that has no such parameter.
func nameIn(key string, v model.Version) string {
	for _, name := range []string{key, otherName(key)} {
		if p, ok := freeParameters[name]; ok && p.in(v) {
			return name
		}
	}
	return ""
}

// parameterKind is the type of a parameter in etcd's configuration file.
type parameterKind int

const (
	kindString parameterKind = iota
	kindInt
	kindBool
	kindDuration
	kindList
)

func (k parameterKind) parse(text string) (any, error) {
	switch k {
	case kindInt:
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number of zero or more", text)
		}
		return n, nil
	case kindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	case kindDuration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is not a duration such as 10s", text)
		}
		return d.Nanoseconds(), nil // The file is decoded as JSON, where a duration is a number of nanoseconds.
	case kindList:
		return strings.Split(text, ","), nil
	}
	return text, nil
}
