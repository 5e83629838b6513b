package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const planHelp = `Say what the operator would do next about a cluster, and why.

The state is read and the plan is made by the operator's own code, here and now, with your rights: objects from the API
server, servers through forwarded ports. Nothing is changed. That needs the right to read the Secrets of the cluster and to
forward ports to its pods.

With -f the plan is that of a manifest which is not applied yet. The API server checks the manifest first (a dry run), so
that a value that it would refuse is refused here, with the field and the cure. The plan is the first step on the way: what
follows is decided when that has been taken.

What the operator has watched for a while, such as for how long a server has been idle, begins anew with each run: a plan may
say that something is waited for which the operator has done waiting for.`

const planExamples = `  kubectl quorate plan etcdcluster/orders
  kubectl quorate plan etcdcluster/orders --explain
  kubectl quorate plan -f edited.yaml
  kubectl quorate plan rediscluster/carts -f - -o json < edited.yaml`

// planView is a plan. It is the output of -o json.
type planView struct {
	Kind      v1alpha1.ClusterKind `json:"kind"`
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	// DryRun says that the plan is that of a manifest which is not applied.
	DryRun bool `json:"dryRun,omitempty"`
	decision
	// Activity is what the operator said last of what it does.
	Activity string `json:"activity,omitempty"`
	// Explanation is the rule that decides, with --explain.
	Explanation *explanation `json:"explanation,omitempty"`
	// Unseen is what the operator sees and this plan does not take into account.
	Unseen []string `json:"unseen,omitempty"`
}

// explanation is a rule of a planner and why it stands where it does in the order of all rules.
type explanation struct {
	Phase string `json:"phase"`
	Rule  string `json:"rule"`
	Why   string `json:"why"`
}

// decision is one of a planner.
type decision struct {
	// Settled says that nothing is left to do, Stalled that only a human can change the outcome.
	Settled bool `json:"settled,omitempty"`
	Stalled bool `json:"stalled,omitempty"`
	// Step that would be taken now, absent while something is waited for. Reason and Message say why.
	Step    string `json:"step,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// After is when it is looked at again at the latest, absent: by the slow health poll.
	After string `json:"after,omitempty"`
	// Otherwise is what is decided if the step fails, which nothing else waits for.
	Otherwise *decision `json:"otherwise,omitempty"`
}

func newPlan(s *session) *cobra.Command {
	var file, output string
	var explain bool
	cmd := &cobra.Command{
		Use: "plan [kind/name] [-f manifest]", Short: "Say what the operator would do next, also for a manifest that is not applied yet",
		Long: planHelp, Example: planExamples, ValidArgsFunction: s.completeCluster,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && file != "" {
				return nil
			}
			return oneCluster(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.planOf(cmd.Context(), args, file, output, explain)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "manifest that is not applied yet; -: read it from the standard input")
	cmd.Flags().BoolVar(&explain, "explain", false, "name the rule that decides, and why it comes before the others")
	addOutput(cmd, &output)
	return cmd
}

func (s *session) planOf(ctx context.Context, args []string, file, output string, explain bool) error {
	c, ns, err := s.client()
	if err != nil {
		return err
	}
	var o clusterObject
	if file == "" {
		ref, err := parseName(args[0])
		if err != nil {
			return err
		}
		if o, err = getCluster(ctx, c, ns, ref); err != nil {
			return err
		}
	} else if o, err = s.edited(ctx, c, ns, file, args); err != nil {
		return err
	}
	seen, err := s.observe(ctx, c, o, file == "")
	if err != nil {
		return err
	}
	v := planOutput(o, seen)
	v.DryRun = file != ""
	if e := seen.explanation; explain && seen.err == nil && e.Rule != "" {
		v.Explanation = &explanation{Phase: e.Phase, Rule: e.Rule, Why: e.Why}
	}
	if done, err := s.write(output, v); done {
		return err
	}
	return render(s.out, planRows(v), painter(s.terminal), 0)
}

// edited is the cluster of a manifest as it would be if it were applied: checked and completed by the API server.
func (s *session) edited(ctx context.Context, c client.Client, ns, file string, args []string) (clusterObject, error) {
	raw, err := s.readFile(file)
	if err != nil {
		return nil, err
	}
	want, err := parseManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if want.GetNamespace() == "" {
		want.SetNamespace(ns)
	}
	ref := v1alpha1.ClusterReference{Kind: kindOf(want), Name: want.GetName()}
	if len(args) > 0 {
		if named, err := parseName(args[0]); err != nil || named != ref {
			return nil, errors.Join(err, fmt.Errorf("%s is of %s/%s, and %s is named: leave the name out, or correct the manifest", file, ref.Kind, ref.Name, args[0]))
		}
	}
	live := newCluster(ref.Kind)
	err = c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, want, client.DryRunAll)
	case err == nil:
		want = replaced(live, want)
		err = c.Update(ctx, want, client.DryRunAll)
	}
	if err != nil {
		return nil, fmt.Errorf("%s would not be applied: %w", file, err)
	}
	return want, nil
}

func (s *session) readFile(file string) ([]byte, error) {
	if file == "-" {
		raw, err := io.ReadAll(s.in)
		if err != nil {
			return nil, fmt.Errorf("read the manifest from the standard input: %w", err)
		}
		return raw, nil
	}
	raw, err := os.ReadFile(file) //nolint:gosec // The person names it.
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return raw, nil
}

// parseManifest reads one cluster, and refuses fields that do not exist.
func parseManifest(raw []byte) (clusterObject, error) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("it is no YAML of a single object: %w", err)
	}
	kind := words[strings.ToLower(head.Kind)]
	if head.APIVersion != v1alpha1.GroupVersion.String() || string(kind) != head.Kind {
		return nil, fmt.Errorf("it is %s %s: a plan is made of one EtcdCluster or RedisCluster of %s", head.APIVersion, head.Kind, v1alpha1.GroupVersion)
	}
	o := newCluster(kind)
	if err := yaml.UnmarshalStrict(raw, o); err != nil {
		return nil, fmt.Errorf("correct the manifest: %w", err)
	}
	if o.GetName() == "" {
		return nil, errors.New("metadata.name is empty: name the cluster")
	}
	return o, nil
}

// replaced is the live object with the specification and the annotations of the manifest.
func replaced(live, want clusterObject) clusterObject {
	for key, value := range want.GetAnnotations() {
		annotations := live.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		live.SetAnnotations(annotations)
	}
	switch l := live.(type) {
	case *v1alpha1.EtcdCluster:
		if w, ok := want.(*v1alpha1.EtcdCluster); ok {
			l.Spec = w.Spec
		}
	case *v1alpha1.RedisCluster:
		if w, ok := want.(*v1alpha1.RedisCluster); ok {
			l.Spec = w.Spec
		}
	}
	return live
}

func planOutput(o clusterObject, seen *outlook) planView {
	v := planView{
		Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName(), Activity: viewOf(o, nil).Activity,
		decision: decided(seen.plan), Unseen: seen.unseen,
	}
	var refusal cluster.Refusal
	var hold cluster.Hold
	switch {
	case errors.As(seen.err, &refusal):
		v.decision = decision{Stalled: true, Reason: refusal.Reason, Message: refusal.Message}
	case errors.As(seen.err, &hold):
		v.decision = decision{Reason: hold.Reason, Message: hold.Message, After: max(hold.After, time.Second).String()}
	}
	return v
}

func decided(p cluster.Plan) decision {
	d := decision{Settled: p.Settled(), Stalled: p.Stalled, Reason: p.Reason, Message: p.Message}
	if p.Step != nil {
		d.Step = p.Step.String()
	}
	if p.After > 0 {
		d.After = p.After.String()
	}
	if p.Fallback != nil {
		otherwise := decided(*p.Fallback)
		d.Otherwise = &otherwise
	}
	return d
}

// planRows are the lines of a plan.
func planRows(v planView) []row {
	title := fmt.Sprintf("%s %s", v.Kind, v.Name)
	if v.DryRun {
		title += "  if the manifest were applied (nothing has been changed)"
	}
	rows := append([]row{{text: cell{title, bold}}}, decisionRows(v.decision, "next")...)
	if e := v.Explanation; e != nil {
		rows = append(rows, row{branch: "  rule      ", text: cell{fmt.Sprintf("%s (phase %q): %s", e.Rule, e.Phase, e.Why), faint}})
	}
	if !v.DryRun && v.Activity != "" {
		rows = append(rows, row{branch: "  operator  ", text: cell{v.Activity, faint}})
	}
	for _, u := range v.Unseen {
		rows = append(rows, row{branch: "  not seen  ", text: cell{u, yellow}})
	}
	return rows
}

func decisionRows(d decision, label string) []row {
	line := func(label, text string, s style) row {
		return row{branch: fmt.Sprintf("  %-9s ", label), text: cell{text, s}}
	}
	var rows []row
	switch {
	case d.Settled:
		return []row{line(label, "nothing: "+d.Message, green)}
	case d.Stalled:
		rows = append(rows, line(label, "nothing, until somebody acts ("+d.Reason+")", red))
	case d.Step == "":
		rows = append(rows, line(label, "wait ("+d.Reason+")", yellow))
	default:
		rows = append(rows, line(label, d.Step+" ("+d.Reason+")", bold))
	}
	rows = append(rows, line("why", d.Message, plain))
	if d.After != "" {
		rows = append(rows, line("again", "after "+d.After+" at the latest", faint))
	}
	if d.Otherwise != nil {
		rows = append(rows, decisionRows(*d.Otherwise, "besides")...)
	}
	return rows
}
