package steps

// GuardShards tells servers how many replicas have to acknowledge what they write.
type GuardShards struct{ Guards []GuardWrites }

func (s GuardShards) String() string { return JoinItems(s.Guards, GuardWrites.String) }

// Calls sends CONFIG SET.
func (s GuardShards) Calls() []Call {
	return calls(s.Guards, func(g GuardWrites) Call { return g.Calls()[0] })
}
