package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// clusterObject is an EtcdCluster or a RedisCluster.
type clusterObject interface {
	client.Object
	GetConditions() []metav1.Condition
	IsPaused() bool
}

// words are what people call the kinds, as with kubectl.
var words = map[string]v1alpha1.ClusterKind{
	"etcdcluster": v1alpha1.KindEtcdCluster, "etcdclusters": v1alpha1.KindEtcdCluster, "ec": v1alpha1.KindEtcdCluster, "etcd": v1alpha1.KindEtcdCluster,
	"rediscluster": v1alpha1.KindRedisCluster, "redisclusters": v1alpha1.KindRedisCluster, "rdc": v1alpha1.KindRedisCluster,
	"redis": v1alpha1.KindRedisCluster, "valkey": v1alpha1.KindRedisCluster,
}

const badName = "name a cluster as kind/name, for example etcdcluster/orders or rediscluster/carts (short: ec/orders, rdc/carts)"

// parseName reads kind/name.
func parseName(arg string) (v1alpha1.ClusterReference, error) {
	word, name, ok := strings.Cut(arg, "/")
	word, _, _ = strings.Cut(strings.ToLower(word), ".") // etcdcluster.quorate.dev/orders, as kubectl prints it.
	kind := words[word]
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return v1alpha1.ClusterReference{}, fmt.Errorf("%q is no cluster: %s", arg, badName)
	}
	return v1alpha1.ClusterReference{Kind: kind, Name: name}, nil
}

// oneCluster is the rule for arguments of commands that work on one cluster.
func oneCluster(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments: %s", len(args), badName)
	}
	_, err := parseName(args[0])
	return err
}

// newCluster is an empty object of a kind.
func newCluster(kind v1alpha1.ClusterKind) clusterObject {
	if kind == v1alpha1.KindEtcdCluster {
		return &v1alpha1.EtcdCluster{}
	}
	return &v1alpha1.RedisCluster{}
}

// kindOf is the kind of a cluster.
func kindOf(o clusterObject) v1alpha1.ClusterKind {
	if _, ok := o.(*v1alpha1.EtcdCluster); ok {
		return v1alpha1.KindEtcdCluster
	}
	return v1alpha1.KindRedisCluster
}

// cluster is the one that an argument names, with the client that read it.
func (s *session) cluster(ctx context.Context, arg string) (client.WithWatch, clusterObject, error) {
	ref, err := parseName(arg)
	if err != nil {
		return nil, nil, err
	}
	c, ns, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	found, err := getCluster(ctx, c, ns, ref)
	return c, found, err
}

// getCluster reads a cluster.
func getCluster(ctx context.Context, c client.Reader, ns string, ref v1alpha1.ClusterReference) (clusterObject, error) {
	o := newCluster(ref.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: ref.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s %s in namespace %s: kubectl quorate status lists those that there are, -n chooses another namespace", ref.Kind, ref.Name, ns)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	return o, nil
}

// listClusters reads all clusters of a namespace, and with an empty one those of all.
func listClusters(ctx context.Context, c client.Reader, ns string) ([]clusterObject, error) {
	var (
		etcds  v1alpha1.EtcdClusterList
		redis  v1alpha1.RedisClusterList
		result []clusterObject
	)
	if err := c.List(ctx, &etcds, client.InNamespace(ns)); err != nil {
		return nil, fmt.Errorf("list EtcdClusters: %w", err)
	}
	if err := c.List(ctx, &redis, client.InNamespace(ns)); err != nil {
		return nil, fmt.Errorf("list RedisClusters: %w", err)
	}
	for i := range etcds.Items {
		result = append(result, &etcds.Items[i])
	}
	for i := range redis.Items {
		result = append(result, &redis.Items[i])
	}
	slices.SortStableFunc(result, func(a, b clusterObject) int { return strings.Compare(a.GetNamespace(), b.GetNamespace()) })
	return result, nil
}

// completeCluster offers the clusters of the namespace for the first argument.
func (s *session) completeCluster(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, ns, err := s.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := listClusters(cmd.Context(), c, ns)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, o := range found {
		out = append(out, strings.ToLower(string(kindOf(o)))+"/"+o.GetName())
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeList offers the names of objects of the namespace.
func (s *session) completeList(list client.ObjectList, names func() []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, ns, err := s.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		if err := c.List(cmd.Context(), list, client.InNamespace(ns)); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

func (s *session) completeNamespaces(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	var list corev1.NamespaceList
	return s.completeList(&list, func() (out []string) {
		for _, n := range list.Items {
			out = append(out, n.Name)
		}
		return out
	})(cmd, args, word)
}

func (s *session) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	raw, err := s.loader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for name := range raw.Contexts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}
