#!/usr/bin/env bash
# Prints the path of a development tool, building it first when it is missing.
#
#   hack/tools.sh controller-gen      one path on stdout; progress on stderr
#   hack/tools.sh all                 builds every tool, prints every path
#
# Tools come from Go modules at the versions of hack/versions.env and go into
# $QUORATE_CACHE/tools/<name>-<version>/, so nothing is installed globally and two checkouts
# that pin different versions do not disturb each other.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/lib.sh
source "$root/hack/lib.sh"
# shellcheck source=hack/versions.env
source "$root/hack/versions.env"

tools=(age age-keygen controller-gen fake-gcs-server golangci-lint gotestsum govulncheck helm versitygw)

# describe NAME sets package (what to build) and version (from hack/versions.env).
describe() {
  case $1 in
    age | age-keygen) package=filippo.io/age/cmd/$1 version=$AGE_VERSION ;;
    controller-gen) package=sigs.k8s.io/controller-tools/cmd/controller-gen version=$CONTROLLER_GEN_VERSION ;;
    fake-gcs-server) package=github.com/fsouza/fake-gcs-server version=$FAKE_GCS_SERVER_VERSION ;;
    golangci-lint) package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint version=$GOLANGCI_LINT_VERSION ;;
    gotestsum) package=gotest.tools/gotestsum version=$GOTESTSUM_VERSION ;;
    govulncheck) package=golang.org/x/vuln/cmd/govulncheck version=$GOVULNCHECK_VERSION ;;
    helm) package=helm.sh/helm/v4/cmd/helm version=$HELM_VERSION ;;
    versitygw) package=github.com/versity/versitygw/cmd/versitygw version=$VERSITYGW_VERSION ;;
    *) die "unknown tool '$1'" "choose one of: ${tools[*]}" ;;
  esac
}

# build DIR PACKAGE VERSION installs one tool into DIR.
build() {
  local dir=$1 package=$2 version=$3
  step "build ${package##*/} $version (once)"
  case $package in
    # These work with the project's versions of their dependencies.
    */helm | */fake-gcs-server | */versitygw) logged "tool-${package##*/}" in_project_module go_programs "$dir" "$package@$version" "$package" ;;
    *) logged "tool-${package##*/}" go_install "$dir" "$package@$version" ;;
  esac
}

# go_install DIR PACKAGE@VERSION builds a program with exactly the versions that its own module
# requires, whatever the caller's flags and target are.
go_install() {
  mkdir -p "$1"
  env -u GOOS -u GOARCH -C / CGO_ENABLED=0 GOFLAGS= GOBIN="$1" go install -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" "$2"
}

path_of() {
  local name=$1 package version dir
  describe "$name"
  dir=$QUORATE_CACHE/tools/$name-$version
  cached "$dir" build "$package" "$version"
  printf '%s\n' "$dir/$name"
}

need go "install Go (the version is in go.mod) from https://go.dev/dl/"
case ${1:-} in
  '') die "no tool named" "hack/tools.sh NAME|all; names: ${tools[*]}" ;;
  all) for tool in "${tools[@]}"; do path_of "$tool"; done ;;
  *) path_of "$1" ;;
esac
