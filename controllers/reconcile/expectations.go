package reconcile

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/controllers/owned"
)

// The watch tells of a status moments after it was written. Until then the cache has the resource as it was, and what follows from that would
// be refused as a conflict: requeuePending is how soon the resource is looked at again, and maxPending how often, before it is taken as it is.
const (
	requeuePending = 20 * time.Millisecond
	maxPending     = 10
)

// expectations remembers the versions of resources that a status was written over.
type expectations struct {
	mu    sync.Mutex
	byUID map[types.UID]*expectation
}

// expectation are the versions that a resource had before its status was written, and how often it was found to have one of them since.
type expectation struct {
	versions []string
	found    int
}

// expect says that none of these versions is the newest one any more.
func (s *expectations) expect(uid types.UID, versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID == nil {
		s.byUID = map[types.UID]*expectation{}
	}
	s.byUID[uid] = &expectation{versions: versions}
}

// pending reports whether a resource is one that is to be waited for.
func (s *expectations) pending(o owned.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byUID[o.GetUID()]
	switch {
	case f == nil:
		return false
	case f.found < maxPending && slices.Contains(f.versions, o.GetResourceVersion()):
		f.found++
		return true
	}
	delete(s.byUID, o.GetUID())
	return false
}

func (s *expectations) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
}
