// Command kubectl-quorate is the plugin "kubectl quorate": it shows how clusters are and what the operator is about to do, and asks for
// backups, restores and what else people ask for. It writes what a person could write with kubectl, and decides nothing by itself: the plan
// is that of the operator's own planners.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// version is set by the linker.
var version = "dev"

func main() {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // Under nohup a lost terminal is to end nothing.
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	log.SetLogger(logr.Discard()) // What the operator's code would log is for its own log.
	err := newRoot(standardStreams()).ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "error:", explain(err))
	os.Exit(1)
}

// exitCode ends the plugin with the code of a program that it ran, which has said itself what was wrong.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
