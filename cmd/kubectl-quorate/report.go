package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const reportHelp = `Collect what somebody needs to find out what is wrong into a file: the clusters and what they are made of, events, the logs of
their pods and of the operator, status and plan.

No Secret is in it. The values of Secrets, private keys, passwords and what looks like one are taken out of everything else, as
are the values of environment variables. Values of Secrets that you may not read cannot be recognized; the file README.txt in
the report says whether that was so. Read a report before you hand it on.`

const reportExamples = `  kubectl quorate report
  kubectl quorate report rediscluster/carts --file carts.tar.gz`

// What is collected of each container's log, at most.
const (
	logLines = 5000
	logBytes = 4 << 20
)

// reportOptions are the flags of report.
type reportOptions struct{ file, operator string }

func newReport(s *session) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use: "report [kind/name]", Short: "Collect what is needed to find out what is wrong, without secrets", Long: reportHelp, Example: reportExamples,
		ValidArgsFunction: s.completeCluster,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneCluster(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return s.report(cmd.Context(), args, o) },
	}
	cmd.Flags().StringVar(&o.file, "file", "", "file to write; default: quorate-report-<namespace>-<time>.tar.gz")
	cmd.Flags().StringVar(&o.operator, "operator-namespace", "quorate-system", "namespace that the operator runs in; empty: without its log")
	return cmd
}

// ours are the kinds of Quorate, and children those that clusters are made of.
var (
	ours = []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("EtcdCluster"), v1alpha1.GroupVersion.WithKind("RedisCluster"),
		v1alpha1.GroupVersion.WithKind("EtcdUser"), v1alpha1.GroupVersion.WithKind("RedisUser"),
		v1alpha1.GroupVersion.WithKind("Backup"), v1alpha1.GroupVersion.WithKind("BackupSchedule"), v1alpha1.GroupVersion.WithKind("Restore"),
		v1alpha1.GroupVersion.WithKind("Autoscaler"),
	}
	children = []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"},
		{Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "PersistentVolumeClaim"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	}
)

// collector puts a report together. What cannot be read is told in it, and ends nothing.
type collector struct {
	*session
	client    client.WithWatch
	clients   kubernetes.Interface
	namespace string
	// name of the only cluster that is of interest, empty: all.
	name    string
	secrets redactor
	archive *archive
	missing []string
}

func (s *session) report(ctx context.Context, args []string, o reportOptions) error {
	c, ns, err := s.client()
	if err != nil {
		return err
	}
	clusters, err := wanted(ctx, c, ns, args)
	if err != nil {
		return err
	}
	clients, _, err := s.clientset()
	if err != nil {
		return err
	}
	if o.file == "" {
		o.file = "quorate-report-" + ns + stamp(s.now()) + ".tar.gz"
	}
	file, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	r := &collector{session: s, client: c, clients: clients, namespace: ns, archive: newArchive(file, strings.TrimSuffix(o.file, ".tar.gz"), s.now())}
	if len(args) > 0 {
		r.name = clusters[0].GetName()
	}
	r.learnSecrets(ctx)
	r.clusters(ctx, clusters)
	r.objects(ctx)
	r.logs(ctx, ns, client.MatchingLabels{cluster.LabelManagedBy: cluster.ManagedBy}, "logs")
	if o.operator != "" {
		r.logs(ctx, o.operator, client.MatchingLabels{cluster.LabelName: "quorate"}, "operator")
	}
	r.readme()
	if err := r.archive.close(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for _, m := range r.missing {
		s.say("not in the report: %s", m)
	}
	_, err = fmt.Fprintf(s.out, "%s: %d files\n", o.file, r.archive.files)
	return err
}

// lack notes what could not be read.
func (r *collector) lack(what string, err error) {
	r.missing = append(r.missing, fmt.Sprintf("%s: %v", what, err))
}

// add writes a file without secrets.
func (r *collector) add(name, text string) { r.archive.add(name, r.secrets.text(text)) }

// learnSecrets reads the Secrets of the namespace, so that their values can be recognized. None of them is kept.
func (r *collector) learnSecrets(ctx context.Context) {
	var list corev1.SecretList
	if err := r.client.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		r.lack("the values of Secrets, so that they could not be recognized elsewhere; only what looks like a password or a key was taken out", err)
		return
	}
	for i := range list.Items {
		r.secrets.learn(&list.Items[i])
	}
}

// clusters adds what a person would look at first.
func (r *collector) clusters(ctx context.Context, clusters []clusterObject) {
	page := &strings.Builder{}
	for _, o := range clusters {
		if err := render(page, append(treeOf(viewOf(o, nil)), row{}), false, 0); err != nil {
			r.lack("status.txt", err)
		}
	}
	r.add("status.txt", page.String())
	for _, o := range clusters {
		name := fmt.Sprintf("plans/%s-%s.txt", strings.ToLower(string(kindOf(o))), o.GetName())
		seen, err := r.observe(ctx, r.client, o, true)
		if err != nil {
			r.lack(name, err)
			continue
		}
		plan := &strings.Builder{}
		if err := render(plan, planRows(planOutput(o, seen)), false, 0); err != nil {
			r.lack(name, err)
		}
		r.add(name, plan.String())
	}
}

// objects adds the resources of the namespace, what they are made of, and events.
func (r *collector) objects(ctx context.Context) {
	for _, kind := range ours {
		r.list(ctx, kind, nil)
	}
	for _, kind := range children {
		r.list(ctx, kind, client.MatchingLabels{cluster.LabelManagedBy: cluster.ManagedBy})
	}
	r.events(ctx)
}

// list adds the objects of a kind.
func (r *collector) list(ctx context.Context, kind schema.GroupVersionKind, labels client.MatchingLabels) {
	for _, o := range r.read(ctx, kind, labels) {
		if labels != nil && !r.concerns(o.GetLabels()) {
			continue
		}
		r.secrets.object(o.Object)
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			r.lack(kind.Kind+" "+o.GetName(), err)
			continue
		}
		r.add(fmt.Sprintf("objects/%s/%s.yaml", strings.ToLower(kind.Kind), o.GetName()), string(raw))
	}
}

// read lists the objects of a kind in the namespace.
func (r *collector) read(ctx context.Context, kind schema.GroupVersionKind, labels client.MatchingLabels) []unstructured.Unstructured {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	options := []client.ListOption{client.InNamespace(r.namespace)}
	if labels != nil {
		options = append(options, labels)
	}
	if err := r.client.List(ctx, &list, options...); err != nil {
		r.lack("objects of the kind "+kind.Kind, err)
		return nil
	}
	return list.Items
}

// concerns reports whether something belongs to the cluster that is of interest.
func (r *collector) concerns(labels map[string]string) bool {
	return r.name == "" || labels[cluster.LabelInstance] == r.name || labels[cluster.LabelPartOf] == r.name
}

// events adds the events of the namespace, the oldest first, in lines.
func (r *collector) events(ctx context.Context) {
	var list corev1.EventList
	if err := r.client.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		r.lack("events", err)
		return
	}
	at := func(e *corev1.Event) time.Time {
		if e.LastTimestamp.IsZero() {
			return e.EventTime.Time
		}
		return e.LastTimestamp.Time
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return at(&a).Compare(at(&b)) })
	page := &strings.Builder{}
	for i := range list.Items {
		e := &list.Items[i]
		if r.name != "" && e.InvolvedObject.Name != r.name && !strings.HasPrefix(e.InvolvedObject.Name, r.name+"-") {
			continue
		}
		_, _ = fmt.Fprintf(page, "%s  %s  %s/%s  %s  %s\n", at(e).UTC().Format(time.RFC3339), e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	r.add("events.txt", page.String())
}

// logs adds the logs of pods, of the run before as well where there was one.
func (r *collector) logs(ctx context.Context, ns string, labels client.MatchingLabels, dir string) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(ns), labels); err != nil {
		r.lack("logs of namespace "+ns, err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if dir == "logs" && !r.concerns(pod.Labels) {
			continue
		}
		for _, st := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			name := fmt.Sprintf("%s/%s/%s", dir, pod.Name, st.Name)
			if st.State.Waiting == nil {
				r.log(ctx, pod, st.Name, false, name+".log")
			}
			if st.LastTerminationState.Terminated != nil {
				r.log(ctx, pod, st.Name, true, name+".previous.log")
			}
		}
	}
}

func (r *collector) log(ctx context.Context, pod *corev1.Pod, container string, previous bool, name string) {
	stream, err := r.clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To(int64(logLines)), LimitBytes: ptr.To(int64(logBytes)), Timestamps: true,
	}).Stream(ctx)
	if err != nil {
		r.lack(name, err)
		return
	}
	defer func() { _ = stream.Close() }() // It was only read.
	raw, err := io.ReadAll(io.LimitReader(stream, logBytes))
	if err != nil {
		r.lack(name, err)
	}
	r.add(name, string(raw))
}

// readme says what the report is of, and what is not in it.
func (r *collector) readme() {
	page := &strings.Builder{}
	_, _ = fmt.Fprintf(page, "Report of kubectl-quorate %s, %s\nNamespace: %s\n", version, r.now().UTC().Format(time.RFC3339), r.namespace)
	if r.name != "" {
		_, _ = fmt.Fprintf(page, "Cluster: %s\n", r.name)
	}
	if v, err := r.clients.Discovery().ServerVersion(); err == nil {
		_, _ = fmt.Fprintf(page, "Kubernetes: %s\n", v.GitVersion)
	}
	_, _ = fmt.Fprintf(page, "Secrets are not in it. %s stands for what was taken out.\n", redacted)
	for _, m := range r.missing {
		_, _ = fmt.Fprintf(page, "Not in it: %s\n", m)
	}
	r.add("README.txt", page.String())
}
