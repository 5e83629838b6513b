package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the plugin", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.out, "kubectl-quorate %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// completer is what kubectl calls to complete the words of a plugin: a program of this name beside it.
// https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
const completer = `#!/bin/sh
# kubectl calls this, as kubectl_complete-quorate in PATH, to complete the words of "kubectl quorate".
exec kubectl-quorate __complete "$@"
`

func newKubectlCompletion() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl", Short: "Print the program with which kubectl completes: save it as kubectl_complete-quorate in PATH", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), completer)
			return err
		},
	}
}
