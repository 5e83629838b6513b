# The Docker engine: installed and started on Debian where it is missing, also on machines whose
# capability bounding set is smaller than what `docker run --privileged` asks for.
# shellcheck shell=bash

engine_home() { printf '%s\n' "$QUORATE_CACHE/engine"; }

# engine_answers is about the daemon, not the client, and must not hang on a dead socket.
engine_answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

ensure_engine() {
  if engine_answers; then
    restore_bounded_runtime
    check_runtime
    return
  fi
  [[ -z ${DOCKER_HOST:-} ]] || die "the Docker engine at DOCKER_HOST=$DOCKER_HOST does not answer" "start it, or unset DOCKER_HOST"
  is_debian || die "the Docker engine does not answer" \
    "install and start Docker (https://docs.docker.com/engine/install/); only on Debian is this done for you"
  need_root "starting the Docker engine"
  install_engine
  start_engine
  # The package may have started an engine of its own.
  check_runtime
}

install_engine() {
  local packages=(docker.io containerd runc iptables jq ca-certificates)
  # Later Debian releases have the client in a package of its own.
  if ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
  if ! command -v dockerd >/dev/null || ! command -v jq >/dev/null; then apt_install "${packages[@]}"; fi
}

start_engine() {
  if [[ -d /run/systemd/system && -z $(missing_capabilities) ]]; then
    step "start the Docker engine (systemctl)"
    systemctl start docker
  fi
  wait_for_engine
  step "Docker engine $(docker version --format '{{.Server.Version}}') answers"
}

# wait_for_engine starts dockerd unless one is alive. It looks again in every round: a killed
# engine may still be dying when this begins, and makes the first new one give up.
wait_for_engine() {
  local deadline=$((SECONDS + 60)) starts=0 pid=
  until engine_answers; do
    if [[ $SECONDS -ge $deadline || $starts -gt 5 ]]; then
      die "the Docker engine does not answer" "read $(engine_home)/dockerd.log (or journalctl -u docker)"
    fi
    if ! is_alive /var/run/docker.pid dockerd && ! { [[ -n $pid ]] && kill -0 "$pid" 2>/dev/null; }; then
      remove_stale_pid /var/run/docker.pid dockerd
      remove_stale_pid /run/docker/containerd/containerd.pid containerd
      run_dockerd
      pid=$!
      starts=$((starts + 1))
    fi
    sleep 0.5
  done
}

# is_alive FILE NAME tells whether the process of a pid file is what it should be: after a kill
# the number may be a zombie's or have been given to another program.
is_alive() {
  local pid
  [[ -s $1 ]] || return 1
  pid=$(<"$1")
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$2" ]] && ! grep -q '^State:[[:space:]]*[ZX]' "/proc/$pid/status" 2>/dev/null
}

# remove_stale_pid FILE NAME: dockerd refuses to start while the number in its pid file exists.
remove_stale_pid() {
  if [[ -e $1 ]] && ! is_alive "$1" "$2"; then
    step "remove $1, left by a killed $2"
    rm -f "$1"
  fi
}

run_dockerd() {
  local args=() log
  mkdir -p "$(engine_home)"
  log=$(engine_home)/dockerd.log
  if [[ -n $(missing_capabilities) ]]; then
    step "this machine lacks $(missing_capabilities | paste -sd' '): containers run without"
    write_bounded_runtime "$bounded_runtime"
    args=(--add-runtime "bounded=$bounded_runtime" --default-runtime bounded)
  fi
  step "start the Docker engine (log: $log)"
  # A session of its own: the engine outlives this script and its terminal.
  # 8 is the lock of `exclusively`, which the engine must not hold.
  setsid dockerd "${args[@]}" </dev/null >>"$log" 2>&1 8>&- &
}

# --- capabilities ------------------------------------------------------------------------------

# In the order of their numbers (linux/capability.h).
capability_names=(CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
  LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE
  SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
  SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
  WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE)

# missing_capabilities [PID] prints the capabilities that a process, by default this one, can never
# have: runc fails with "unable to apply caps" when --privileged asks for one of them.
missing_capabilities() {
  local bounding number last
  bounding=$((16#$(awk '/^CapBnd:/ { print $2 }' "/proc/${1:-self}/status")))
  last=$(</proc/sys/kernel/cap_last_cap)
  for ((number = 0; number <= last && number < ${#capability_names[@]}; number++)); do
    if (((bounding >> number & 1) == 0)); then printf 'CAP_%s\n' "${capability_names[number]}"; fi
  done
}

# Outside the cache: the engine needs it for as long as it runs, whoever empties the cache.
bounded_runtime=/usr/local/libexec/quorate-runc-bounded

# restore_bounded_runtime puts the wrapper back where the running engine looks for it.
restore_bounded_runtime() {
  local path
  path=$(docker info --format '{{with index .Runtimes "bounded"}}{{.Path}}{{end}}' 2>/dev/null) || true
  if [[ $path == *runc-bounded && ! -x $path ]]; then write_bounded_runtime "$path"; fi
}

# check_runtime: an engine that was started otherwise may lack capabilities and have no runtime that does without. It may
# have other containers, so it is not restarted here. Of an engine elsewhere nothing is known.
check_runtime() {
  local missing
  if [[ -n ${DOCKER_HOST:-} ]] || ! is_alive /var/run/docker.pid dockerd; then return 0; fi
  missing=$(missing_capabilities "$(</var/run/docker.pid)" | paste -sd' ')
  if [[ -z $missing || $(docker info --format '{{.DefaultRuntime}}') != runc ]]; then return 0; fi
  die "the Docker engine that runs lacks $missing, so that no privileged container, and no kind node, can start" \
    "stop it (systemctl stop docker.socket docker, or kill $(</var/run/docker.pid)) and repeat this as root on Debian: it is started again with a runtime that does without; elsewhere give dockerd such a default runtime (write_bounded_runtime in hack/kind/engine.sh)"
}

# write_bounded_runtime FILE writes an OCI runtime that takes the missing capabilities out of what it
# is asked for (the bundle of `create` and `run`, the process file of `exec`) and then is runc.
write_bounded_runtime() {
  local file=$1 missing
  missing=$(missing_capabilities | jq -R . | jq -cs .)
  mkdir -p "${file%/*}"
  cat >"$file" <<SH
#!/bin/bash
# Written by hack/kind/engine.sh.
bundle= process= previous=
for word in "\$@"; do
  case \$previous in --bundle | -b) bundle=\$word ;; --process | -p) process=\$word ;; esac
  case \$word in --bundle=*) bundle=\${word#*=} ;; --process=*) process=\${word#*=} ;; esac
  previous=\$word
done
bound() {
  [ -f "\$1" ] || return 0
  jq -c '$missing as \$missing | walk(if type == "object" and has("capabilities") and (.capabilities | type) == "object"
    then .capabilities |= map_values(if type == "array" then . - \$missing else . end) else . end)' \
    "\$1" >"\$1.bounded" && cat "\$1.bounded" >"\$1"
  rm -f "\$1.bounded"
}
[ -z "\$bundle" ] || bound "\$bundle/config.json"
[ -z "\$process" ] || bound "\$process"
exec $(command -v runc) "\$@"
SH
  chmod 0755 "$file"
}

# --- images ------------------------------------------------------------------------------------

# import_image ROOT IMAGE [CHANGE...] makes an image of one layer from a directory.
import_image() {
  local root=$1 image=$2 change changes=()
  shift 2
  for change in 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$@"; do
    changes+=(--change "$change")
  done
  chmod 0755 "$root"
  tar -C "$root" --numeric-owner --owner=0 --group=0 -c . | docker import "${changes[@]}" - "$image" >/dev/null
}

image_exists() { docker image inspect "$1" >/dev/null 2>&1; }
