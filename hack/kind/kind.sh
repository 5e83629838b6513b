#!/usr/bin/env bash
# A real three-node Kubernetes cluster for tests, with or without an image registry.
# See README.md beside this file.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
source "$here/../lib.sh"
# shellcheck source=hack/versions.env
source "$here/../versions.env"
for part in debian engine kubernetes datastores nodeimage cluster check; do
  # shellcheck disable=SC1090
  source "$here/$part.sh"
done

usage() {
  cat <<'TEXT'
usage: hack/kind/kind.sh COMMAND

  up               bring up the cluster "quorate": 1 control plane + 2 workers, all schedulable
  down             delete the cluster (the cache and the engine stay)
  status           engine, node containers, nodes
  load IMAGE...    copy local images into all nodes
  check            prove it: restricted pods, pod network, DNS, volumes, every data-store image
  routes           put pod routes back after a node restarted
  kubeconfig       print the path of the kubeconfig
  images           make the data-store images present in the local engine
  servers          print the directory of data-store programs for this host, building them if needed
  envtest-assets   print the directory with kube-apiserver, etcd and kubectl, building them if needed
  bin NAME         print the path of a program: kubectl (a recent one on PATH will do), or built: kind, kubeadm, etcdctl, ...

Everything expensive is kept in $QUORATE_CACHE (default ~/.cache/quorate).
QUORATE_KIND_IMAGES=public|built chooses the image source instead of asking the registry.
QUORATE_CLUSTER=NAME works on another cluster than "quorate", beside it.
QUORATE_NODES=N makes a cluster of N nodes instead of 3: a control plane and N-1 workers.
TEXT
}

# bin NAME builds the one module that a program comes from, unless it is there.
bin() {
  case ${1:-} in
    kind)
      ensure_kind
      printf '%s\n' "$(kind_dir)/kind"
      ;;
    etcd | etcdctl | etcdutl)
      ensure_etcd "$ETCD_3_6"
      printf '%s\n' "$(etcd_dir "$ETCD_3_6")/$1"
      ;;
    kubectl) kubectl_program ;;
    kubeadm | kube-apiserver | kube-controller-manager | kube-scheduler | kube-proxy | kubelet)
      ensure_kubernetes
      printf '%s\n' "$(kubernetes_dir)/$1"
      ;;
    *) die "no program '${1:-}' is built here" "kind.sh help lists them" ;;
  esac
}

command=${1:-help}
shift || true
case $command in
  up) exclusively up ;;
  down) exclusively down ;;
  status) status ;;
  load) load "$@" ;;
  check) check ;;
  routes) restore_routes ;;
  kubeconfig) kubeconfig_path ;;
  images) images ;;
  servers)
    ensure_servers
    servers_dir
    ;;
  envtest-assets)
    ensure_envtest
    envtest_dir
    ;;
  bin) bin "$@" ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    die "unknown command '$command'"
    ;;
esac
