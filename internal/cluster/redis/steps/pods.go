package steps

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
