package main

import (
	"github.com/spf13/cobra"
)

// newRoot is the plugin with all its commands.
func newRoot(io streams) *cobra.Command {
	s := newSession(io)
	root := &cobra.Command{
		Use:           "kubectl-quorate",
		Short:         "Look at etcd, Redis and Valkey clusters that Quorate runs, and look after them",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl quorate"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	s.bind(root.PersistentFlags())
	must(root.RegisterFlagCompletionFunc("namespace", s.completeNamespaces))
	must(root.RegisterFlagCompletionFunc("context", s.completeContexts))
	root.AddCommand(
		newStatus(s), newPlan(s), newHibernate(s), newWake(s), newBackup(s), newRestore(s), newPromote(s), newShell(s), newReport(s), newVersion(s),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.AddCommand(newKubectlCompletion())
		}
	}
	return root
}

// must ends the program on an error in how it was put together.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
