package reshard

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// bigKeys is how many hashes of bigBytes there are for every GiB.
const (
	bigKeys  = 16
	bigBytes = 4 << 20
)

// fill writes so many bytes: mostly strings of 100 B to 64 KiB, small ones more often, and hashes, sets, lists and sorted sets. It
// is the same data every time.
func (w *world) fill(size int64) (keys int64) {
	w.b.Helper()
	var addrs []string
	for _, s := range w.servers[:shards] {
		addrs = append(addrs, s.addr.String())
	}
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, Username: "default", Password: password,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = c.Close() }()
	r := rand.New(rand.NewPCG(1, 2)) // Data that is the same every time.
	noise := make([]byte, 128<<10)
	for i := range noise {
		noise[i] = byte(r.UintN(256))
	}
	pipe := c.Pipeline()
	flush := func() {
		if _, err := pipe.Exec(w.b.Context()); err != nil {
			w.b.Fatal(err)
		}
	}
	for i := range max(1, int(bigKeys*size>>30)) {
		size -= bigBytes
		for part := range bigBytes >> 10 {
			pipe.HSet(w.b.Context(), fmt.Sprintf("big-%d", i), fmt.Sprintf("field-%d", part), value(r, noise, 1<<10))
		}
		flush()
		keys++
	}
	for n := int64(0); n < size; keys++ {
		n += write(w.b.Context(), pipe, r, noise, keys)
		if pipe.Len() >= 500 {
			flush()
		}
	}
	flush()
	return keys
}

// write puts one key in line, and returns about how large it is.
func write(ctx context.Context, pipe goredis.Pipeliner, r *rand.Rand, noise []byte, i int64) int64 {
	key := fmt.Sprintf("key-%d", i)
	members := make([]any, 10+r.IntN(190))
	for m := range members {
		members[m] = fmt.Sprintf("%d-%s", m, value(r, noise, 20))
	}
	size := int64(len(members)) * 40
	switch r.IntN(20) {
	case 0:
		pipe.HSet(ctx, key, slices.Concat(members, members[:len(members)%2])...)
	case 1:
		pipe.SAdd(ctx, key, members...)
	case 2:
		pipe.RPush(ctx, key, members...)
	case 3:
		scored := make([]goredis.Z, len(members))
		for m := range members {
			scored[m] = goredis.Z{Score: r.Float64(), Member: members[m]}
		}
		pipe.ZAdd(ctx, key, scored...)
	default:
		size = int64(100 * math.Pow(655.36, r.Float64()*r.Float64())) // 100 B to 64 KiB
		pipe.Set(ctx, key, value(r, noise, int(size)), 0)
	}
	return size
}

// value is a piece of noise.
func value(r *rand.Rand, noise []byte, n int) string {
	from := r.IntN(len(noise) - n)
	return string(noise[from : from+n])
}
