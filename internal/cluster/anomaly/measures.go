package anomaly

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Measure is one way to find something.
type Measure struct {
	Finding Finding
	// What it reads, in words, for the documentation, and Up and Down the limits at which it is raised and over, in words as well.
	What, Up, Down string
	// Clear is the score down to which a finding has to come to be over. It is raised at 1.
	Clear float64
	// For is how long scores have to be that bad, ClearFor how long they have to be that good.
	For, ClearFor time.Duration
	// Advice says what to do.
	Advice string
	say    func(r Reading) string
}

// Limits: where a score is 1, or a part of it. They are chosen so that an ordinary disk or network of a cloud, which is slow at times, raises
// nothing, and what keeps clients waiting does.
const (
	// FsyncLimit is, as CommitLimit, far above what etcd recommends (10 ms and 25 ms for 99 % of them, https://etcd.io/docs/v3.6/faq/):
	// volumes over a network often take longer, and clusters work. At 100 ms a disk takes as long as a heartbeat of etcd by default.
	FsyncLimit = 100 * time.Millisecond
	// CommitLimit is the same of commits of the database.
	CommitLimit = 250 * time.Millisecond
	// LeastSyncs is how many of them there have to be within a minute. A disk that is used less holds nobody up. It is little, because a
	// disk that takes seconds does not get further.
	LeastSyncs = 20
	// AnswerLimit is how long a server may take to answer.
	AnswerLimit = 250 * time.Millisecond
	// AnswerRatio is how many times as long as its peers it may take.
	AnswerRatio = 5
	// ChangesLimit is how often within an hour a server may be lost, or leadership move.
	ChangesLimit = 5
	// EntriesLimit is how many entries of the log a member of etcd may be behind: at that many etcd refuses requests
	// (maxGapBetweenApplyAndCommitIndex in server/etcdserver/v3_server.go).
	EntriesLimit = 5000
	// BytesLimit is how many bytes a replica of Redis may be behind.
	BytesLimit = 64 << 20
	// ShareLimit of maxmemory is almost full.
	ShareLimit = 0.9
	// LoadRatio is how many times the mean of the other shards a shard may have to do.
	LoadRatio = 3
	// LoadLimit is how many commands a second more than that mean it may have, where it has so many times as much.
	LoadLimit = 1000
	// HoldRatio is the same as LoadRatio of the bytes that a shard holds.
	HoldRatio = 2
	// HoldLimit is the same as LoadLimit of them.
	HoldLimit = 256 << 20
	// WasteRatio is how many times as much memory as it uses a server may take.
	WasteRatio = 1.5
	// WasteLimit is how many bytes more it may take, where it takes so many times as much.
	WasteLimit = 256 << 20
	// SkewLimit is how far clocks may be apart.
	SkewLimit = 2 * time.Second
)

// Measures.
var (
	// MemoryShare reads how much of maxmemory is used, as a share.
	MemoryShare = &Measure{
		Finding: MemoryForecast, What: "used memory of a primary that evicts no key, as a part of its maxmemory", Up: "90 %", Down: "85 %",
		Clear: 0.85 / ShareLimit, For: time.Minute, ClearFor: 2 * time.Minute, Advice: memoryAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("%s uses more than 90 %% of its maxmemory of %s", r.Subject, r.Detail)
		},
	}
	// MemoryTrend reads when maxmemory is used up, in hours. Its score is 1 or 0: what a Trend foretells has its own two limits.
	MemoryTrend = &Measure{
		Finding: MemoryForecast, What: "when that reaches maxmemory, by the straight line through the last hours, from half of it on",
		Up: "within 4 h", Down: "not within 8 h",
		Clear: 0.5, For: 2 * time.Minute, ClearFor: 5 * time.Minute, Advice: memoryAdvice,
		say: func(r Reading) string {
			left := time.Duration(r.Figure * float64(time.Hour))
			return fmt.Sprintf("at the rate of the last hours %s reaches its maxmemory of %s in less than %s", r.Subject, r.Detail, Hours(left))
		},
	}
	// FsyncTime reads in how many seconds 99 of 100 fsyncs of the log are done.
	FsyncTime = &Measure{
		Finding: SlowDisk, What: "99th percentile of the fsyncs of etcd's log within a minute, without the slowest", Up: "100 ms", Down: "50 ms",
		Clear: 0.5, For: 3 * time.Minute, ClearFor: 10 * time.Minute, Advice: diskAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("99 %% of the fsyncs of %s take up to about %s", r.Subject, seconds(r.Figure))
		},
	}
	// CommitTime reads the same of commits of the database.
	CommitTime = &Measure{
		Finding: SlowDisk, What: "99th percentile of the commits of etcd's database within a minute, without the slowest", Up: "250 ms", Down: "125 ms",
		Clear: 0.5, For: 3 * time.Minute, ClearFor: 10 * time.Minute, Advice: diskAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("99 %% of the commits of %s take up to about %s", r.Subject, seconds(r.Figure))
		},
	}
	// MemberChanges reads how often a server was lost within an hour.
	MemberChanges = &Measure{
		Finding: FlappingMember, What: "how often a server that was ready no longer was, or ran anew, within an hour, without being rolled out",
		Up: "5 times", Down: "2 times", Clear: 2.0 / ChangesLimit, Advice: flappingAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("%s was lost about %s times within an hour", r.Subject, number(r.Figure))
		},
	}
	// LeaderChanges reads how often leadership moved within an hour.
	LeaderChanges = &Measure{
		Finding: FlappingMember, What: "how often another member led, or another server of a shard was the primary, within an hour, without a rollout",
		Up: "5 times", Down: "2 times", Clear: 2.0 / ChangesLimit, Advice: flappingAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("leadership of %s moved about %s times within an hour", orAll(r.Subject), number(r.Figure))
		},
	}
	// AnswerTime reads in how many seconds a server answers the operator.
	AnswerTime = &Measure{
		Finding: SlowMember, What: "how long a server takes to answer the operator",
		Up: "250 ms and 5 times as long as the median of its peers", Down: "half of either",
		Clear: 0.5, For: 3 * time.Minute, ClearFor: 5 * time.Minute,
		Advice: "look at the cpu, the memory and the disk of its pod and node, and raise spec.resources or move the pod",
		say: func(r Reading) string {
			return fmt.Sprintf("%s takes about %s to answer, at least %d times as long as its peers", r.Subject, seconds(r.Figure), AnswerRatio)
		},
	}
	// EntriesBehind reads how many entries of the log a member has yet to apply.
	EntriesBehind = &Measure{
		Finding: ReplicationLag, What: "entries of the log that a voting member of etcd has yet to apply", Up: "5000", Down: "1000",
		Clear: 0.2, For: 3 * time.Minute, ClearFor: 5 * time.Minute, Advice: lagAdvice,
		say: func(r Reading) string {
			return fmt.Sprintf("%s is about %s entries behind", r.Subject, number(r.Figure))
		},
	}
	// BytesBehind reads how many bytes of the replication stream a replica has yet to apply.
	BytesBehind = &Measure{
		Finding: ReplicationLag, What: "bytes of the stream that a connected replica has yet to apply", Up: "64 MiB", Down: "16 MiB",
		Clear: 0.25, For: 3 * time.Minute, ClearFor: 5 * time.Minute, Advice: lagAdvice,
		say: func(r Reading) string { return fmt.Sprintf("%s is about %s behind", r.Subject, bytes(r.Figure)) },
	}
	// Skew reads how many seconds the clocks of two servers are apart at least.
	Skew = &Measure{
		Finding: ClockSkew, What: "how far the clocks of two servers are apart at least, whatever the network takes", Up: "2 s", Down: "1 s",
		Clear: 0.5, For: 2 * time.Minute, ClearFor: 5 * time.Minute,
		Advice: "see to the time synchronisation of their nodes: certificates, leases and the expiry of keys go by the clock",
		say: func(r Reading) string {
			return fmt.Sprintf("the clocks of %s are about %s apart", r.Detail, seconds(r.Figure))
		},
	}
	// ShardLoad reads how many times the mean of the others a shard has to do.
	ShardLoad = &Measure{
		Finding: HotShard, What: "commands a second of a shard's primary compared with the mean of the others, without spec.rebalance",
		Up: "3 times, and 1000 a second more", Down: "half of either",
		Clear: 0.5, For: 10 * time.Minute, ClearFor: 20 * time.Minute, Advice: shardAdvice + "Load",
		say: func(r Reading) string {
			return fmt.Sprintf("%s has about %s times as many commands as the other shards", r.Subject, number(r.Figure))
		},
	}
	// ShardMemory reads how many times the mean of the others a shard holds.
	ShardMemory = &Measure{
		Finding: HotShard, What: "used memory of a shard's primary compared with the mean of the others, without spec.rebalance",
		Up: "2 times, and 256 MiB more", Down: "70 % of either",
		Clear: 0.7, For: 10 * time.Minute, ClearFor: 20 * time.Minute, Advice: shardAdvice + "Memory",
		say: func(r Reading) string {
			return fmt.Sprintf("%s holds about %s times as much as the other shards", r.Subject, number(r.Figure))
		},
	}
	// MemoryWaste reads how many bytes a server of Redis takes beyond those in use.
	MemoryWaste = &Measure{
		Finding: Fragmented, What: "memory that a server of Redis takes from the kernel compared with what it uses",
		Up: "1.5 times, and 256 MiB more", Down: "80 % of either",
		Clear: 0.8, For: 30 * time.Minute, ClearFor: 30 * time.Minute,
		Advice: `set spec.config.extra to {"activedefrag": "yes"}, or restart the server at a quiet time`,
		say: func(r Reading) string {
			return fmt.Sprintf("about %s of the memory of %s is taken and not in use", bytes(r.Figure), r.Subject)
		},
	}
	// FreePages reads how many bytes of a database are not in use.
	FreePages = &Measure{
		Finding: Fragmented, What: "free space in the database of etcd, while spec.maintenance.defragmentation.mode is Disabled",
		Up: "minFree and 45 % of the file", Down: "70 % of either",
		Clear: 0.7, For: 30 * time.Minute, ClearFor: 30 * time.Minute,
		Advice: "set spec.maintenance.defragmentation.mode to Auto, with a window if need be, or defragment by hand",
		say: func(r Reading) string {
			return fmt.Sprintf("about %s of the database of %s is free", bytes(r.Figure), r.Subject)
		},
	}
)

const (
	diskAdvice     = "use a faster StorageClass, and keep others off the disk: every write waits for it"
	memoryAdvice   = "raise spec.resources.limits.memory or spec.config.maxMemory, add shards, delete keys, or choose a spec.config.maxMemoryPolicy that evicts"
	flappingAdvice = "see why with kubectl describe pod and the log: a failing probe, memory that ran out, a slow disk, the network, or somebody who deletes pods"
	lagAdvice      = "look at its cpu, its disk and its network, or write less at a time: what is behind may be lost with the others"
	shardAdvice    = "have slots divided by what they weigh, with spec.rebalance.by: "
)

// Measures that there are, the worst first.
func Measures() []*Measure {
	return []*Measure{
		MemoryShare, MemoryTrend, FsyncTime, CommitTime, MemberChanges, LeaderChanges, AnswerTime, EntriesBehind, BytesBehind, Skew,
		ShardLoad, ShardMemory, MemoryWaste, FreePages,
	}
}

var ordered = Measures()

func (m *Measure) order() int { return slices.Index(ordered, m) }

// Of makes a reading whose score is the part of the limit that a value has reached.
func (m *Measure) Of(subject string, value, limit float64) Reading {
	return Reading{Measure: m, Subject: subject, Score: value / limit, Figure: value}
}

// Both is the score of what has to reach two limits: that of the one which is further away.
func Both(a, aLimit, b, bLimit float64) float64 { return min(a/aLimit, b/bLimit) }

// about rounds to two digits.
func about(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}

func number(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(about(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(about(v), 'f', 0, 64)
}

// seconds are written as a duration, in whole milliseconds.
func seconds(v float64) string {
	return time.Duration(about(v) * float64(time.Second)).Round(time.Millisecond).String()
}

// bytes are written in MiB.
func bytes(v float64) string { return number(v/(1<<20)) + " MiB" }

func orAll(subject string) string {
	if subject == "" {
		return "the cluster"
	}
	return subject
}

// Hours rounds a time up so that it changes seldom: to 1, 2, 4 and 8 hours.
func Hours(d time.Duration) string {
	n := 1
	for time.Duration(n)*time.Hour < d {
		n *= 2
	}
	return fmt.Sprintf("%dh", n)
}
