#!/usr/bin/env bash
# Installs what the tests need from the system and what Go, git and make do not bring: a C
# compiler, for the race detector, zstd and jq, to read backups without Quorate, and Prometheus with promtool, which alerts and dashboards are
# tested with. On Debian as root it installs the packages; elsewhere it says what is missing. The kind cluster has its own list in hack/kind.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/lib.sh
source "$root/hack/lib.sh"
# shellcheck source=hack/kind/debian.sh
source "$root/hack/kind/debian.sh"

packages=(gcc jq libc6-dev prometheus zstd)

compiles() { printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "${CC:-gcc}" -x c -o /dev/null - 2>/dev/null; }

reads_backups() { command -v jq >/dev/null && command -v zstd >/dev/null; }

watches() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

compiles && reads_backups && watches && exit 0
if ! is_debian; then
  compiles || die "no C compiler, which the race detector needs" "install gcc and the C library's headers, or set CC"
  reads_backups || die "no jq or no zstd, which a test of backups needs" "install jq and zstd"
  die "no prometheus or no promtool, which alerts are tested with" "install Prometheus (https://prometheus.io/download/)"
fi
apt_install "${packages[@]}"
compiles || die "${CC:-gcc} cannot compile a C program" "unset CC, or repair the compiler"
