package steps

// A process that stands still (its disk does not answer, or it was stopped) does not end by itself, and as long as the kernel takes connections for it
// its probes pass. Where others see that as well, its pod is deleted:
//
//	the server                                     is ended
//	was a primary, and others own all its slots    at once: going on, it would first answer what clients have sent it meanwhile
//	copies a primary that answers                  when it has hung for hopeless
//	leads, and nobody has replaced it              when it has hung for hopeless, and its data is on a volume
//	may have more than those that answer           never: a process that has been started anew does not tell how far it had got
//	starts, and has not been heard of yet          never: it loads its data, and would begin again
//
// Where no server answers, it may be the operator that is cut off, and nothing is done.

// End ends servers that hang, which would not end by themselves.
type End struct {
	Pods []PodRef
	// Former says that they are former primaries of the mode Replicated. Where they cannot be ended,
	// clients find the new primary all the same.
	Former bool
}

// ReasonEnd is the reason of End.
const ReasonEnd = "EndingHungServers"

func (s End) String() string {
	return "end " + JoinItems(s.Pods, func(p PodRef) string { return p.Name })
}

// ResizePod gives the container of a server other resources while it runs.
type ResizePod struct{ Pod PodRef }

func (s ResizePod) String() string { return "resize " + s.Pod.Name }
