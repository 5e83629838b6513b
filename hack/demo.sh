#!/usr/bin/env bash
# `make demo`: from a bare machine to a kind cluster that runs the operator, one EtcdCluster and one
# RedisCluster, both Ready, with data written and read through their client Services. Repeatable:
# a second run keeps what is there and brings it up to date.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/lib.sh
source "$root/hack/lib.sh"
cd "$root"

: "${IMG:?set by make demo}"
system=quorate-system
namespace=demo
samples=(-f config/samples/etcdcluster.yaml -f config/samples/rediscluster.yaml)
timings=()

# phase TEXT COMMAND... runs one part of the demo and remembers how long it took.
phase() {
  local text=$1 began=$SECONDS
  shift
  step "== $text"
  "$@"
  timings+=("$(printf '%5ds  %s' $((SECONDS - began)) "$text")")
}

kubectl() { command "$kubectl" "$@"; }

cluster() {
  hack/kind/kind.sh up
  KUBECONFIG=$(hack/kind/kind.sh kubeconfig)
  export KUBECONFIG
  kubectl=$(hack/kind/kind.sh bin kubectl)
}

image() {
  make docker-build IMG="$IMG"
  hack/kind/kind.sh load "$IMG"
}

operator() {
  local before
  before=$(kubectl get deployment -n "$system" quorate-manager -o name --ignore-not-found)
  # What is generated is committed: no need to build the generator first.
  make -o manifests deploy IMG="$IMG" KUBECTL="$kubectl"
  # The same tag may now be another image.
  if [[ -n $before ]]; then kubectl rollout restart -n "$system" "$before"; fi
  kubectl rollout status -n "$system" deployment/quorate-manager --timeout=3m
}

clusters() {
  kubectl apply --server-side -f - <<YAML
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    pod-security.kubernetes.io/enforce: restricted
YAML
  kubectl apply --server-side -n "$namespace" "${samples[@]}"
  kubectl wait --for=condition=Ready -n "$namespace" "${samples[@]}" --timeout=10m
}

data() {
  kubectl delete job -n "$namespace" write-and-read --ignore-not-found
  sed "s,image: quay.io/quorate/quorate:latest.*,image: $IMG," hack/demo-job.yaml |
    kubectl apply --server-side -n "$namespace" -f -
  kubectl wait --for=condition=Complete -n "$namespace" job/write-and-read --timeout=3m
  kubectl logs -n "$namespace" job/write-and-read
}

# explain prints what a person would look at first when a phase failed.
explain() {
  [[ -n ${kubectl:-} ]] || return 0
  {
    printf '\n--- what went wrong ---\n'
    kubectl get etcdclusters,redisclusters,pods,jobs -n "$namespace" -o wide || true
    kubectl describe etcdclusters,redisclusters -n "$namespace" || true
    kubectl get events -n "$namespace" --sort-by=.lastTimestamp | tail -n 20 || true
    kubectl logs -n "$namespace" job/write-and-read --tail=20 || true
    kubectl get pods -n "$system" -o wide || true
    kubectl logs -n "$system" deployment/quorate-manager --tail=40 || true
  } >&2
}

hint() {
  kubectl get etcdclusters,redisclusters -A
  cat <<TEXT

Both clusters are Ready. Try next:

  export KUBECONFIG=$KUBECONFIG
  export PATH=$(dirname "$kubectl"):\$PATH

  kubectl get pods -n $namespace -o wide                                    # members, shards and their nodes
  kubectl describe etcdcluster orders -n $namespace                         # what the operator sees and does
  kubectl explain etcdcluster.spec                                     # every field, its default and its limits
  kubectl delete pod orders-0 -n $namespace                                 # break something ...
  kubectl wait --for=condition=Ready etcdcluster/orders -n $namespace       # ... and see it come back
  kubectl get secret carts-connection -n $namespace -o yaml                 # what an application connects with

  make kind-down                                                       # remove all of it
TEXT
}

finished=
trap '[[ -n $finished ]] || explain' EXIT
phase "kind cluster" cluster
phase "image $IMG" image
phase "operator" operator
phase "EtcdCluster and RedisCluster Ready" clusters
phase "write and read data" data
finished=1

printf '\n'
printf '%s\n' "${timings[@]}"
printf '%5ds  in all\n\n' "$SECONDS"
hint
