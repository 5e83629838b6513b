package redisdump

// chunkBytes is how an arena grows.
const chunkBytes = 1 << 20

// arena is memory for one value after the other. Appending to a slice would leave several times the value's size behind: this takes
// twice its size, and is used again.
type arena struct {
	chunks [][]byte
	size   int
	whole  []byte
}

func (a *arena) reset() { a.size = 0 }

func (a *arena) add(p []byte) {
	for len(p) > 0 {
		at, from := a.size/chunkBytes, a.size%chunkBytes
		if at == len(a.chunks) {
			a.chunks = append(a.chunks, make([]byte, chunkBytes))
		}
		n := copy(a.chunks[at][from:], p)
		a.size += n
		p = p[n:]
	}
}

// join is all that was added, with room for more behind it. It is valid until the next value is joined.
func (a *arena) join(room int) []byte {
	if cap(a.whole) < a.size+room {
		a.whole = nil // Before the new one is made.
		a.whole = make([]byte, 0, a.size+room)
	}
	a.whole = a.whole[:0]
	for rest, i := a.size, 0; rest > 0; i++ {
		n := min(rest, chunkBytes)
		a.whole = append(a.whole, a.chunks[i][:n]...)
		rest -= n
	}
	return a.whole
}
