package config

import (
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
