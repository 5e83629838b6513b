package controllers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The watch tells of a status moments after it was written. Until then the cache has the resource as it was, and what follows from that would
// be refused as a conflict: catchUp is how soon the resource is looked at again, and catchUps how often, before it is taken as it is.
const (
	catchUp  = 20 * time.Millisecond
	catchUps = 10
)

// superseded remembers the versions of resources that a status was written over.
type superseded struct {
	mu    sync.Mutex
	byUID map[types.UID]*overwritten
}

// overwritten are the versions that a resource had before its status was written, and how often it was found to have one of them since.
type overwritten struct {
	versions []string
	found    int
}

// note says that none of these versions is the newest one any more.
func (s *superseded) note(uid types.UID, versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID == nil {
		s.byUID = map[types.UID]*overwritten{}
	}
	s.byUID[uid] = &overwritten{versions: versions}
}

// has reports whether a resource is one that is to be waited for.
func (s *superseded) has(o Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byUID[o.GetUID()]
	switch {
	case f == nil:
		return false
	case f.found < catchUps && slices.Contains(f.versions, o.GetResourceVersion()):
		f.found++
		return true
	}
	delete(s.byUID, o.GetUID())
	return false
}

func (s *superseded) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
}
