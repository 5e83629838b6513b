package cluster

import "github.com/quorate/quorate/internal/cluster/anomaly"

// Figures are what one pass has measured of a cluster and what is too lively for its status: they go into metrics alone.
type Figures struct {
	// Margin is how many more voting members may fail before the cluster loses its quorum; nil: no majority was seen, so that it is
	// unknown or lost, or there are no votes.
	Margin *int
	// Lags say how far members are behind.
	Lags []Lag
	// Anomalies that were found; nil: no server could be asked.
	Anomalies *anomaly.Report
}

// Lag is how far one member is behind the one that it copies.
type Lag struct {
	// Pod of the member.
	Pod string
	// Behind in bytes of the replication stream (Redis and Valkey) or entries of the log (etcd).
	Behind float64
}
