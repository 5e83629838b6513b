package model

// Storage is what volumes are asked for with.
type Storage struct {
	// Size in bytes, 0 without volumes.
	Size int64
	// Class is the StorageClass, empty for the default one of the Kubernetes cluster.
	Class string
}

func (s Storage) String() string {
	if s.Class == "" {
		return Bytes(s.Size)
	}
	return Bytes(s.Size) + " of StorageClass " + s.Class
}

// MadeBy reports whether claims that are made with the other storage are as asked for.
func (s Storage) MadeBy(other Storage) bool { return s.Size == other.Size && s.Takes(other.Class) }

// Takes reports whether a volume of the given class is of the one that is asked for. Without one asked for, any is: a default
// class that changes moves no data.
func (s Storage) Takes(class string) bool { return s.Class == "" || s.Class == class }

// Outgrows reports whether a volume is smaller than what is asked for, and its claim has not asked for more yet.
func (w Want) Outgrows(c Claim) bool {
	return w.Storage.Takes(c.Class) && c.Capacity > 0 && c.Capacity < w.Storage.Size && c.Request < w.Storage.Size &&
		!c.Leaving && c.Lost == ""
}

// Expandable reports whether a claim can be made to ask for the larger volume that is wanted.
func (c Claim) Expandable(w Want) bool { return w.Outgrows(c) && !c.Rigid && c.Refused == "" }

// Grows reports whether the volume of a claim is being expanded, or is about to be.
func (c Claim) Grows(w Want) bool { return c.Capacity < c.Request || c.Expandable(w) }

// Misfit says how a volume differs from what is asked for so that only another one can take its place, empty when it does not.
// Where more was asked for than there is, what there is counts: the expansion was taken back.
func (w Want) Misfit(c Claim) string {
	switch {
	case w.Storage.Size == 0 || c.Capacity == 0 || c.Leaving || c.Lost != "":
		return ""
	case !w.Storage.Takes(c.Class):
		return "is of StorageClass " + c.Class
	case min(c.Request, c.Capacity) > w.Storage.Size:
		return "has " + Bytes(min(c.Request, c.Capacity))
	case w.Outgrows(c) && c.Rigid:
		return "has " + Bytes(c.Capacity) + " and cannot be expanded"
	}
	return ""
}
