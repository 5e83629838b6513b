#!/usr/bin/env bash
# Prints the path of the CRD of PodMonitors, which the module of the operator of Prometheus carries (version in hack/versions.env).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/lib.sh
source "$root/hack/lib.sh"
# shellcheck source=hack/versions.env
source "$root/hack/versions.env"

need go "install Go (the version is in go.mod) from https://go.dev/dl/"
module=github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR_VERSION
# Not in the tree: what is downloaded here is no part of its module.
dir=$(cd / && GOFLAGS='' go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
file=$dir/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml
[[ -n $dir && -f $file ]] || die "module $module has no CRD of PodMonitors" "choose another PROMETHEUS_OPERATOR_VERSION in hack/versions.env"
printf '%s\n' "$file"
