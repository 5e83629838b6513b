// Package recorded has series of readings of real servers, and plays them to what looks for anomalies. How they were recorded, and how to
// record them again, is in testdata/README.md.
package recorded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
)

// Header is the first line of a recording.
type Header struct {
	// Scenario that was recorded, and Version of the servers.
	Scenario string `json:"scenario"`
	Version  string `json:"version"`
	// Every reading was taken that long after the one before, and As is how far apart they are told to be: nobody wants to record for hours.
	Every time.Duration `json:"every"`
	As    time.Duration `json:"as"`
	// Began is when.
	Began time.Time `json:"began"`
}

// Reading is one line: what all servers said at one time.
type Reading struct {
	// Act is what was done to the servers right before, empty for nothing.
	Act     string   `json:"act,omitempty"`
	Servers []Server `json:"servers"`
}

// Server is what one server said, or that it did not.
type Server struct {
	Name string `json:"name"`
	// Process counts its starts, Ready says that it runs.
	Process int  `json:"process"`
	Ready   bool `json:"ready"`
	// Took is how long it took to answer, Answered whether it did.
	Took     time.Duration `json:"took"`
	Answered bool          `json:"answered"`
	Clock    anomaly.Clock `json:"clock"`
	Etcd     *Etcd         `json:"etcd,omitempty"`
	Redis    *Redis        `json:"redis,omitempty"`
}

// Etcd is what a member said.
type Etcd struct {
	ID      uint64                   `json:"id"`
	Leader  uint64                   `json:"leader"`
	Applied uint64                   `json:"applied"`
	Size    int64                    `json:"size"`
	InUse   int64                    `json:"inUse"`
	Vitals  *etcdmodel.MemberMetrics `json:"vitals,omitempty"`
}

// Redis is what a server said.
type Redis struct {
	ID       string            `json:"id"`
	Primary  string            `json:"primary,omitempty"`
	Slots    string            `json:"slots,omitempty"`
	LinkUp   bool              `json:"linkUp,omitempty"`
	Process  string            `json:"process"`
	Offset   int64             `json:"offset"`
	Commands int64             `json:"commands"`
	Memory   redismodel.Memory `json:"memory"`
}

// Recording is a whole file.
type Recording struct {
	Header
	Readings []Reading
}

// Read reads a recording from a file.
func Read(path string) (Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return Recording{}, err
	}
	defer func() { _ = f.Close() }() // It was only read.
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var out Recording
	for n := 0; lines.Scan(); n++ {
		var r Reading
		into := any(&r)
		if n == 0 {
			into = &out.Header
		}
		if err := json.Unmarshal(lines.Bytes(), into); err != nil {
			return Recording{}, fmt.Errorf("%s, line %d: %w", path, n+1, err)
		}
		if n > 0 {
			out.Readings = append(out.Readings, r)
		}
	}
	return out, lines.Err()
}
