# Go programs built from their modules: Kubernetes, containerd, CoreDNS, local-path, kind, etcd.
# Each is built in a small module of its own, generated in the cache, because the dependency graphs
# of most do not agree with each other or with the project's.
# shellcheck shell=bash

kubernetes_dir() { printf '%s\n' "$QUORATE_CACHE/bin/kubernetes-$KUBERNETES_VERSION"; }
containerd_dir() { printf '%s\n' "$QUORATE_CACHE/bin/containerd-$CONTAINERD_VERSION"; }
coredns_dir() { printf '%s\n' "$QUORATE_CACHE/bin/coredns-$COREDNS_VERSION"; }
local_path_dir() { printf '%s\n' "$QUORATE_CACHE/bin/local-path-provisioner-$LOCAL_PATH_VERSION"; }
kind_dir() { printf '%s\n' "$QUORATE_CACHE/bin/kind-$KIND_VERSION"; }
pause_dir() { printf '%s\n' "$QUORATE_CACHE/bin/pause-1"; }
envtest_dir() { printf '%s\n' "$QUORATE_CACHE/envtest/$KUBERNETES_VERSION-etcd-$ETCD_3_6"; }
# etcd_dir VERSION
etcd_dir() { printf '%s\n' "$QUORATE_CACHE/bin/etcd-$1"; }

# module_dir MODULE@VERSION prints where the sources of a module lie, downloading them if needed.
module_dir() {
  (cd "$QUORATE_CACHE" && GOFLAGS='' go mod download -json "$1") |
    sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p'
}

need_go() {
  need go "install Go from https://go.dev/dl/ and put it on PATH"
}

# --- Kubernetes -------------------------------------------------------------------------------

kubernetes_commands=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl)

# kubernetes_go_mod prints a go.mod that requires Kubernetes and replaces the staging modules,
# which its own go.mod takes from inside its repository, by their published versions.
kubernetes_go_mod() {
  local source=$1 staging=v0.${KUBERNETES_VERSION#v1.}
  printf 'module quorate.local/build\n'
  sed -n '/^go /p; /^godebug /p; /^godebug (/,/^)/p' "$source/go.mod"
  printf 'require k8s.io/kubernetes %s\n' "$KUBERNETES_VERSION"
  sed -n "s|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging/.*|replace \1 => \1 $staging|p" "$source/go.mod"
}

# kubernetes_ldflags sets the version in the two packages that report it; kubeadm refuses to
# work with the default v0.0.0.
kubernetes_ldflags() {
  local package minor=${KUBERNETES_VERSION#v1.}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s -X %s.gitTreeState=clean ' \
      "$package" "$KUBERNETES_VERSION" "$package" "$package" "${minor%%.*}" "$package"
  done
}

build_kubernetes_here() {
  local out=$1 source
  source=$(module_dir "k8s.io/kubernetes@$KUBERNETES_VERSION")
  kubernetes_go_mod "$source" >go.mod
  mkdir -p "$out"
  GO_BUILD_LDFLAGS=$(kubernetes_ldflags) go_build "$out" \
    "${kubernetes_commands[@]/#/k8s.io/kubernetes/cmd/}"
}

build_kubernetes() {
  step "build Kubernetes $KUBERNETES_VERSION from its Go modules (about 5 minutes cold on 2 cores)"
  logged build-kubernetes in_new_module build_kubernetes_here "$1"
  step "built Kubernetes"
}

# --- the others -------------------------------------------------------------------------------

build_containerd() {
  local module=github.com/containerd/containerd/v2
  step "build containerd $CONTAINERD_VERSION"
  GO_BUILD_TAGS="no_btrfs no_aufs no_zfs no_devmapper" \
    GO_BUILD_LDFLAGS="-X $module/version.Version=$CONTAINERD_VERSION" \
    logged build-containerd in_new_module go_programs "$1" "$module@$CONTAINERD_VERSION" \
    $module/cmd/containerd $module/cmd/ctr $module/cmd/containerd-shim-runc-v2
}

# coredns_source prints a main package with the plugins that kubeadm's Corefile names: all of them
# take a minute more to compile.
coredns_source() {
  local plugin
  printf 'package main\n\nimport (\n\t"github.com/coredns/coredns/coremain"\n'
  for plugin in cache errors forward health kubernetes loadbalance loop metrics ready reload; do
    printf '\t_ "github.com/coredns/coredns/plugin/%s"\n' "$plugin"
  done
  printf ')\n\nfunc main() { coremain.Run() }\n'
}

build_coredns_here() {
  mkdir coredns
  coredns_source >coredns/main.go
  go_programs "$1" "github.com/coredns/coredns@$COREDNS_VERSION" ./coredns
}

build_coredns() {
  step "build CoreDNS $COREDNS_VERSION"
  logged build-coredns in_project_module build_coredns_here "$1"
}

build_local_path() {
  local module=github.com/rancher/local-path-provisioner
  step "build local-path-provisioner $LOCAL_PATH_VERSION"
  logged build-local-path in_project_module go_programs "$1" "$module@$LOCAL_PATH_VERSION" $module
}

build_kind() {
  step "build kind $KIND_VERSION"
  logged build-kind in_new_module go_programs "$1" "sigs.k8s.io/kind@$KIND_VERSION" sigs.k8s.io/kind
}

# build_etcd OUT VERSION: server and tools are modules of one release; the server's package
# main is the root of its module and is therefore renamed.
build_etcd() {
  local out=$1 version=$2 module=go.etcd.io/etcd
  step "build etcd $version with etcdctl and etcdutl"
  logged "build-etcd-$version" in_new_module go_programs "$out" \
    "$module/server/v3@v$version $module/etcdctl/v3@v$version $module/etcdutl/v3@v$version" \
    $module/server/v3 $module/etcdctl/v3 $module/etcdutl/v3
  mv "$out/server" "$out/etcd"
}

# pause_source prints the program that holds a pod's namespaces: it waits for its end and, as
# process 1 of a shared PID namespace, reaps. In Go, so that no C compiler is needed.
pause_source() {
  cat <<'GO'
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
GO
}

build_pause_here() {
  mkdir pause
  pause_source >pause/main.go
  mkdir -p "$1"
  go_build "$1" ./pause
}

build_pause() { logged build-pause in_new_module build_pause_here "$1"; }

# --- what callers ask for ---------------------------------------------------------------------

# kubectl_program prints a kubectl: the one built for the cluster, else the one on PATH where it is recent enough, else one
# built now. Where images are public nothing else needs Kubernetes built.
kubectl_program() {
  local found
  found=$(command -v kubectl || true)
  if [[ ! -e $(kubernetes_dir) && -n $found ]] && is_recent "$found"; then
    printf '%s\n' "$found"
    return
  fi
  ensure_kubernetes
  printf '%s\n' "$(kubernetes_dir)/kubectl"
}

# is_recent KUBECTL: what config/ asks of kustomize, and explain by OpenAPI v3, came with 1.27.
is_recent() {
  local version
  version=$("$1" version --client -o json 2>/dev/null | sed -n 's/.*"gitVersion": *"v\([0-9.]*\).*/\1/p' | head -n 1)
  [[ -n $version && $(printf '%s\n' 1.27 "$version" | sort -V | head -n 1) == 1.27 ]]
}

ensure_kubernetes() {
  need_go
  cached "$(kubernetes_dir)" build_kubernetes
}

ensure_kind() {
  need_go
  cached "$(kind_dir)" build_kind
}

# ensure_etcd VERSION
ensure_etcd() {
  need_go
  cached "$(etcd_dir "$1")" build_etcd "$1"
}

# ensure_node_programs makes everything that runs on a node.
ensure_node_programs() {
  ensure_kubernetes
  ensure_kind
  ensure_etcd "$ETCD_3_6"
  cached "$(containerd_dir)" build_containerd
  cached "$(coredns_dir)" build_coredns
  cached "$(local_path_dir)" build_local_path
  cached "$(pause_dir)" build_pause
}

assemble_envtest() {
  mkdir -p "$1"
  ln "$(kubernetes_dir)/kube-apiserver" "$(kubernetes_dir)/kubectl" "$(etcd_dir "$ETCD_3_6")/etcd" "$1/"
}

# ensure_envtest makes the directory that envtest knows as KUBEBUILDER_ASSETS.
ensure_envtest() {
  ensure_etcd "$ETCD_3_6"
  ensure_kubernetes
  cached "$(envtest_dir)" assemble_envtest
}
