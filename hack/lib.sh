# Shared shell functions of the scripts under hack/. Sourced, never run.
#
# Progress goes to stderr, results (paths) to stdout, so that `dir=$(hack/kind/kind.sh servers)`
# works while a person still sees what happens.
# shellcheck shell=bash

# A failing command inside $( ) must fail the script too.
shopt -s inherit_errexit

# QUORATE_CACHE is the one folder that holds everything downloaded or built.
QUORATE_CACHE=${QUORATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quorate}
mkdir -p "$QUORATE_CACHE"
QUORATE_CACHE=$(cd "$QUORATE_CACHE" && pwd)
export QUORATE_CACHE

# project is the root of the checkout.
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# step TEXT prints one progress line with the seconds since the script began.
step() { printf '[%4ds] %s\n' "$SECONDS" "$*" >&2; }

# warn TEXT prints something that a person should notice but that stops nothing.
warn() { printf '[%4ds] WARNING: %s\n' "$SECONDS" "$*" >&2; }

# die WHAT [CURE] ends the script with what failed and what to do about it.
die() {
  printf 'error: %s\n' "$1" >&2
  if [[ -n ${2:-} ]]; then printf '  cure: %s\n' "$2" >&2; fi
  exit 1
}

# need COMMAND CURE fails with the cure when a command is missing.
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is not installed" "$2"; }

# logged NAME COMMAND... runs a noisy command with its output in the cache's log folder, tells
# every 20 seconds how far it is, and shows the end of the log only when the command fails.
logged() (
  log=$QUORATE_CACHE/logs/$1.log rc=0
  mkdir -p "${log%/*}"
  : >"$log"
  heartbeat "$1" "$log" 2>&3 &
  beat=$!
  shift
  # A trap and not `if ! "$@"`: a condition would switch off errexit inside functions.
  trap 'rc=$?; { kill "$beat" && wait "$beat"; } 2>/dev/null || true; [[ $rc -eq 0 ]] || show_failure "$rc" "$log" 2>&3; exit "$rc"' EXIT
  "$@" 3>&- >"$log" 2>&1
) 3>&2

heartbeat() {
  # Redirected: a last sleep must not keep the caller's pipe or a lock open.
  while sleep 20 >/dev/null 2>&1 3>&- 8>&- 9>&-; do
    step "  $1: $(wc -l <"$2") lines, now $(tail -n 1 "$2" | cut -c 1-70)"
  done
}

show_failure() {
  tail -n 25 "$2" >&2
  printf 'error: the step above failed (exit code %s)\n' "$1" >&2
  printf '  cure: read %s, then run the same command again: what was finished is kept\n' "$2" >&2
}

# cached PATH BUILDER [ARG...] makes PATH once: `BUILDER TMP ARG...` fills TMP (a path beside
# PATH which does not exist yet), and only a finished TMP is renamed to PATH. A lock lets two
# scripts ask for the same thing at once; leftovers of a killed build are removed.
cached() {
  local path=$1 builder=$2 lock
  shift 2
  [[ ! -e $path ]] || return 0
  lock=$QUORATE_CACHE/locks/$(tr / _ <<<"${path#"$QUORATE_CACHE/"}")
  mkdir -p "${path%/*}" "${lock%/*}"
  (
    flock 9
    [[ ! -e $path ]] || exit 0
    rm -rf "$path".tmp.*
    tmp=$path.tmp.$BASHPID
    "$builder" "$tmp" "$@" 9>&-
    mv "$tmp" "$path"
  ) 9>"$lock"
}

# scratch NAME makes a directory for work in progress. What killed builds left is swept after a
# few hours, when no build can still be using it.
scratch() {
  mkdir -p "$QUORATE_CACHE/tmp"
  find "$QUORATE_CACHE/tmp" -mindepth 1 -maxdepth 1 -mmin +240 -exec rm -rf {} +
  mktemp -d "$QUORATE_CACHE/tmp/$1.XXXXXX"
}

# exclusively COMMAND... waits until no other script is inside, then runs a command.
exclusively() {
  mkdir -p "$QUORATE_CACHE/locks"
  exec 8>"$QUORATE_CACHE/locks/exclusive"
  if ! flock -n 8; then
    step "wait for another run to finish"
    flock 8
  fi
  "$@"
}

# digest prints a short key of what it reads.
digest() { sha256sum | cut -c1-12; }

# go_build OUT PACKAGE... builds static binaries into the directory OUT, in the current module.
go_build() {
  local out=$1
  shift
  # Flags of the caller's environment must not change what lands in a cache keyed by version.
  env -u GOOS -u GOARCH CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod \
    go build -v -trimpath -buildvcs=false -gcflags=all=-dwarf=false -tags "${GO_BUILD_TAGS:-}" \
    -ldflags "-s -w ${GO_BUILD_LDFLAGS:-}" -o "$out/" "$@"
}

# in_new_module COMMAND... runs a command inside an empty module in a scratch directory.
in_new_module() (
  dir=$(scratch module)
  trap 'rm -rf "$dir"' EXIT
  cd "$dir" || exit
  go mod init quorate.local/build 2>/dev/null
  "$@"
)

# in_project_module COMMAND... runs a command inside a module with the project's requirements. A
# program that works with these versions of client-go and the like, which are compiled anyway, is
# built in seconds.
in_project_module() { in_new_module with_project_requirements "$@"; }

with_project_requirements() {
  sed 's|^module .*|module quorate.local/build|' "$project/go.mod" >go.mod
  cp "$project/go.sum" .
  "$@"
}

# go_programs OUT "MODULE@VERSION..." PACKAGE... builds packages at the given module versions.
go_programs() {
  local out=$1 modules=$2
  shift 2
  mkdir -p "$out"
  # shellcheck disable=SC2086 # a list of modules
  env GOWORK=off GOFLAGS=-mod=mod go get $modules
  go_build "$out" "$@"
}
