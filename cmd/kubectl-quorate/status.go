package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/goroutine"
)

const statusHelp = `Show clusters as trees of their members or shards, with role, health and version.

Without a name all clusters of the namespace are shown. What is shown is what the operator has written into the status of
the clusters. With --live the servers are asked as well, the way the operator asks them, and it is shown how far each one is
behind. That needs the right to read the Secrets of the cluster and to forward ports.`

const statusExamples = `  kubectl quorate status
  kubectl quorate status rediscluster/carts --watch
  kubectl quorate status etcdcluster/orders --live
  kubectl quorate status -A -o json`

// statusOptions are the flags of status.
type statusOptions struct {
	output           string
	watch, all, live bool
}

func newStatus(s *session) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use: "status [kind/name]", Short: "Show clusters as trees of their members or shards", Long: statusHelp, Example: statusExamples,
		ValidArgsFunction: s.completeCluster,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneCluster(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return s.status(cmd.Context(), o, args) },
	}
	addOutput(cmd, &o.output)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show them again when something changes, until interrupted")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "show the clusters of all namespaces")
	cmd.Flags().BoolVar(&o.live, "live", false, "ask the servers how far they are behind")
	cmd.MarkFlagsMutuallyExclusive("watch", "output")
	return cmd
}

// addOutput adds the flag -o for what programs read.
func addOutput(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "output", "o", "", "json or yaml instead of text")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)))
}

// write prints a value in the form of -o, and reports whether one was asked for.
func (s *session) write(format string, value any) (bool, error) {
	var (
		raw []byte
		err error
	)
	switch format {
	case "":
		return false, nil
	case "json":
		raw, err = json.MarshalIndent(value, "", "  ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(value)
	default:
		return true, fmt.Errorf("-o %s: use json or yaml", format)
	}
	if err == nil {
		_, err = s.out.Write(raw)
	}
	return true, err
}

func (s *session) status(ctx context.Context, o statusOptions, args []string) error {
	c, ns, err := s.client()
	if err != nil {
		return err
	}
	if o.all {
		ns = ""
	}
	show := func(w io.Writer) error {
		found, err := wanted(ctx, c, ns, args)
		if err != nil {
			return err
		}
		views, err := s.viewsOf(ctx, c, found, o.live)
		if err != nil {
			return err
		}
		if done, err := s.write(o.output, map[string]any{"clusters": views}); done {
			return err
		}
		return s.draw(w, views, ns)
	}
	if o.watch {
		return s.watchClusters(ctx, c, ns, show)
	}
	return show(s.out)
}

// viewsOf returns the views of clusters. With live, it asks their servers for replication lags.
func (s *session) viewsOf(ctx context.Context, c client.WithWatch, found []clusterObject, live bool) ([]clusterView, error) {
	views := make([]clusterView, 0, len(found))
	for _, cluster := range found {
		var lags map[string]string
		if live {
			var err error
			if lags, err = s.askServers(ctx, c, cluster); err != nil {
				return nil, err
			}
		}
		views = append(views, viewOf(cluster, lags))
	}
	return views, nil
}

// wanted are the clusters that are named, or all.
func wanted(ctx context.Context, c client.Reader, ns string, args []string) ([]clusterObject, error) {
	if len(args) == 0 {
		return listClusters(ctx, c, ns)
	}
	if ns == "" {
		return nil, errors.New("-A shows all clusters: name none, or choose a namespace with -n")
	}
	ref, err := parseName(args[0])
	if err != nil {
		return nil, err
	}
	one, err := getCluster(ctx, c, ns, ref)
	return []clusterObject{one}, err
}

// draw writes trees. ns is the namespace that all of them are in, empty for any.
func (s *session) draw(w io.Writer, views []clusterView, ns string) error {
	if len(views) == 0 {
		where := "in namespace " + ns
		if ns == "" {
			where = "in any namespace"
		}
		_, err := fmt.Fprintf(w, "There is no cluster %s: -n chooses another one, -A shows all.\n", where)
		return err
	}
	for i, v := range views {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if ns == "" {
			v.Name = v.Namespace + "/" + v.Name
		}
		if err := render(w, treeOf(v), painter(s.terminal), s.width); err != nil {
			return err
		}
	}
	return nil
}

// calm is how long more changes are waited for before clusters are shown again.
const calm = 200 * time.Millisecond

// wipe takes the cursor to the top left and clears what is below (ECMA-48, CUP and ED).
const wipe = "\x1b[H\x1b[J"

// watchClusters shows them whenever one of them has changed in what is shown.
func (s *session) watchClusters(ctx context.Context, c client.WithWatch, ns string, show func(io.Writer) error) error {
	changed, failed := make(chan struct{}, 1), make(chan error, 2)
	for _, list := range []client.ObjectList{&v1alpha1.EtcdClusterList{}, &v1alpha1.RedisClusterList{}} {
		goroutine.Go(func() error { return tellChanges(ctx, c, list, ns, changed) }, func(err error) { failed <- err })
	}
	last := ""
	for ctx.Err() == nil {
		page := &strings.Builder{}
		err := show(page)
		if err == nil && page.String() != last {
			last = page.String()
			err = s.turn(last)
		}
		if err == nil {
			err = waitForChange(ctx, changed, failed)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil // Interrupted, which is how it ends.
}

// turn shows a page in the place of the last one, and where there is no terminal below it.
func (s *session) turn(page string) error {
	if s.terminal {
		page = wipe + page
	} else {
		page = s.now().UTC().Format(time.RFC3339) + "\n" + page + "\n"
	}
	_, err := io.WriteString(s.out, page)
	return err
}

// tellChanges tells of every change of the clusters of a list. The API server ends each watch after some minutes, and another follows.
func tellChanges(ctx context.Context, c client.WithWatch, list client.ObjectList, ns string, to chan<- struct{}) error {
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, list, client.InNamespace(ns))
		if err != nil {
			return fmt.Errorf("watch clusters: %w", err)
		}
		for range w.ResultChan() {
			select {
			case to <- struct{}{}:
			default: // It was told, and nobody has looked yet.
			}
		}
		w.Stop()
	}
	return nil
}

// waitForChange returns a moment after the first change: others come with it.
func waitForChange(ctx context.Context, changed <-chan struct{}, failed <-chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-changed:
	}
	rest := time.NewTimer(calm)
	defer rest.Stop()
	select {
	case <-ctx.Done():
	case <-rest.C:
	}
	return nil
}
