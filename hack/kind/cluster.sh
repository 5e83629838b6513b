# The kind cluster itself: create, repair, remove.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of kind.sh and the other parts

cluster=${QUORATE_CLUSTER:-quorate}
node_count=${QUORATE_NODES:-3}
control_plane=$cluster-control-plane
created_mark=/kind/quorate-created

kubeconfig_path() { printf '%s\n' "$QUORATE_CACHE/kind/$cluster.kubeconfig"; }

# kubectl_in_node runs kubectl inside the control plane: it is there on both paths.
kubectl_in_node() { docker exec -i "$control_plane" kubectl --kubeconfig=/etc/kubernetes/admin.conf "$@"; }

kind_command() { "$(kind_dir)/kind" "$@"; }

# cluster_containers [FILTER...] prints the node containers, in the order of their last address:
# started in this order they get the same addresses again, and nothing has to be re-certified.
cluster_containers() {
  local name
  docker ps -a "$@" --filter "label=io.x-k8s.kind.cluster=$cluster" --format '{{.Names}}' |
    while read -r name; do
      printf '%s %s\n' "$(docker cp "$name:/kind/old-ipv4" - 2>/dev/null | tar -xO 2>/dev/null || true)" "$name"
    done | sort -V | awk '{ print $NF }'
}

# --- which path --------------------------------------------------------------------------------

# image_source prints "public" where a registry has the node image, else "built", and says why.
# QUORATE_KIND_IMAGES=public|built decides without asking.
image_source() {
  case ${QUORATE_KIND_IMAGES:-auto} in
    public | built) printf '%s\n' "$QUORATE_KIND_IMAGES" ;;
    auto) ask_registry ;;
    *) die "QUORATE_KIND_IMAGES=$QUORATE_KIND_IMAGES is unknown" "use public, built or auto" ;;
  esac
}

ask_registry() {
  local answer rc=0
  step "ask the registry for $KIND_NODE_IMAGE"
  answer=$(timeout 8 docker manifest inspect "$KIND_NODE_IMAGE" 2>&1) || rc=$?
  case $rc:$answer in
    0:*)
      step "the registry has it: public images"
      printf 'public\n'
      return
      ;;
    124:*) step "no registry answers within 8 seconds" ;;
    *"no such manifest"* | *"manifest unknown"*)
      warn "the registry answers but has no such image: is KIND_NODE_IMAGE in hack/versions.env that of kind $KIND_VERSION?"
      ;;
    *) step "no registry answers: ${answer##*$'\n'}" ;;
  esac
  printf 'built\n'
}

# --- create ------------------------------------------------------------------------------------

# prepare_host raises the limits that three nodes with systemd and kubelets exceed.
prepare_host() {
  raise_limit fs/inotify/max_user_instances 1024
  raise_limit fs/inotify/max_user_watches 524288
}

raise_limit() {
  local file=/proc/sys/$1
  if [[ -r $file && $(<"$file") -lt $2 ]]; then
    { printf '%s\n' "$2" >"$file"; } 2>/dev/null ||
      warn "cannot raise ${1//\//.} to $2: if pods fail with 'too many open files' run: sudo sysctl ${1//\//.}=$2"
  fi
}

# cluster_config prints kind's configuration; the audit policy is mounted from the cache.
cluster_config() {
  local disable_cni=$1 node
  sed "s|@DISABLE_CNI@|$disable_cni|; s|@POLICY@|$(audit_policy)|" "$here/cluster.yaml"
  for ((node = 1; node < node_count; node++)); do printf '  - role: worker\n'; done
}

audit_policy() { printf '%s\n' "$QUORATE_CACHE/kind/audit-policy.yaml"; }

# place_audit_policy also before a stopped control plane starts again: it mounts this file.
place_audit_policy() {
  mkdir -p "$QUORATE_CACHE/kind"
  cat "$here/audit-policy.yaml" >"$(audit_policy)"
}

create_cluster() {
  local source=$1 image config
  config=$QUORATE_CACHE/kind/$cluster.yaml
  if [[ $source == public ]]; then
    image=$KIND_NODE_IMAGE
    cluster_config false >"$config"
  else
    image=$(node_image)
    cluster_config true >"$config"
  fi
  step "create the cluster from $image"
  logged kind-create kind_command create cluster --name "$cluster" --image "$image" --config "$config" \
    --kubeconfig "$(kubeconfig_path)"
  if [[ $source == built ]]; then install_pod_network; fi
  untaint
}

# All nodes take pods: a three-member cluster spreads over three.
untaint() {
  kubectl_in_node taint nodes --all node-role.kubernetes.io/control-plane- >/dev/null 2>&1 || true
}

# --- pod network -------------------------------------------------------------------------------

# has_own_network tells a built node (see node/quorate-pod-network) from a public one with kindnet.
has_own_network() { docker exec "$1" test -x /usr/local/bin/quorate-pod-network; }

# pod_cidrs prints "NODE POD-CIDR" for every node, waiting until the controller gave all of them.
pod_cidrs() {
  local deadline=$((SECONDS + 60)) table
  while true; do
    table=$(kubectl_in_node get nodes --no-headers -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDR)
    if [[ $(grep -c / <<<"$table") -eq $(cluster_containers | wc -l) ]]; then break; fi
    [[ $SECONDS -lt $deadline ]] || die "not every node got a pod range within a minute: $table" "kind.sh down, then kind.sh up"
    sleep 0.5
  done
  printf '%s\n' "$table"
}

install_pod_network() {
  local table node
  step "pod network"
  table=$(pod_cidrs)
  for node in $(cluster_containers); do
    docker exec -i "$node" bash -c 'mkdir -p /etc/quorate && cat >/etc/quorate/pod-network' <<<"$table"
  done
  restore_routes
}

# restore_routes puts back what a restarted node lost. The nodes do so by themselves every few
# seconds; this is for those who do not want to wait.
restore_routes() {
  local node
  for node in $(cluster_containers --filter status=running); do
    if has_own_network "$node"; then docker exec "$node" quorate-pod-network once; fi
  done
}

# --- repair ------------------------------------------------------------------------------------

cluster_exists() { [[ -n $(docker ps -aq --filter "label=io.x-k8s.kind.cluster=$cluster") ]]; }

# cluster_complete: an interrupted `kind create` leaves nodes without the mark that
# create_from_source puts at its end. It lies in the node, for it must not outlive the cluster.
cluster_complete() {
  [[ $(cluster_containers | wc -l) -eq $node_count ]] && docker cp "$control_plane:$created_mark" - >/dev/null 2>&1
}

# cluster_versions prints the lines of hack/versions.env that shape a cluster: all but the tools', which come last.
cluster_versions() { sed '/^# Development tools/,$d; /^#/d; /^$/d' "$here/../versions.env"; }

mark_created() { cluster_versions | docker exec -i "$control_plane" sh -c "cat >$created_mark"; }

# changed_versions prints which versions the cluster was not made with.
changed_versions() {
  local made
  made=$(docker cp "$control_plane:$created_mark" - | tar -xO)
  comm -13 <(sort <<<"$made") <(cluster_versions | sort)
}

# remove_unfit deletes a cluster that cannot be repaired. It is a throw-away, and from the cache made again in half a minute.
remove_unfit() {
  local changed
  if ! cluster_complete; then
    step "remove what an interrupted run left"
    delete_cluster
    return
  fi
  changed=$(changed_versions)
  if [[ -n $changed ]]; then
    step "make the cluster again: it was made without $(paste -sd' ' <<<"$changed") (hack/versions.env)"
    delete_cluster
  fi
}

start_stopped_nodes() {
  local node
  for node in $(cluster_containers --filter status=paused); do
    step "unpause $node"
    docker unpause "$node" >/dev/null
  done
  for node in $(cluster_containers --filter status=exited --filter status=created); do
    step "start $node"
    docker start "$node" >/dev/null
  done
}

wait_for_api() {
  local deadline=$((SECONDS + 180))
  until kubectl_in_node get --raw /readyz >/dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || die "the API server does not become ready" \
      "docker logs $control_plane; kind.sh down and kind.sh up start afresh"
    sleep 0.5
  done
}

# wait_for_heartbeats waits until every kubelet has renewed its lease after its node container
# started: for 40 seconds after a node died its old Ready condition still stands.
wait_for_heartbeats() {
  local deadline=$((SECONDS + 120)) node started renewed
  for node in $(cluster_containers --filter status=running); do
    started=$(docker inspect --format '{{.State.StartedAt}}' "$node")
    while true; do
      renewed=$(kubectl_in_node -n kube-node-lease get lease "$node" -o 'jsonpath={.spec.renewTime}' 2>/dev/null) || true
      # Both are RFC 3339 in UTC, which sorts as text.
      if [[ $renewed > $started ]]; then break; fi
      [[ $SECONDS -lt $deadline ]] || die "the kubelet of $node does not report" "docker exec $node journalctl -u kubelet"
      sleep 0.5
    done
  done
}

# wait_until_usable returns when pods can run, resolve names and get volumes on every node.
wait_until_usable() {
  step "wait for the API server"
  wait_for_api
  restore_routes
  step "wait for nodes, DNS and storage"
  wait_for_heartbeats
  logged kind-wait kubectl_in_node wait --for=condition=Ready node --all --timeout=180s
  logged kind-wait kubectl_in_node -n kube-system rollout status deployment/coredns --timeout=180s
  logged kind-wait kubectl_in_node -n local-path-storage rollout status deployment/local-path-provisioner --timeout=180s
}

# --- commands ----------------------------------------------------------------------------------

up() {
  need_go
  ensure_engine
  prepare_host
  ensure_kind
  place_audit_policy
  if cluster_exists; then remove_unfit; fi
  if cluster_exists; then
    start_stopped_nodes
  else
    create_from_source
  fi
  wait_until_usable
  kind_command export kubeconfig --name "$cluster" --kubeconfig "$(kubeconfig_path)" 2>/dev/null
  step "cluster $cluster is up: export KUBECONFIG=$(kubeconfig_path)"
}

create_from_source() {
  local source
  source=$(image_source)
  if [[ $source == public ]]; then
    write_public_datastores_env
  else
    step "everything is built here, once (less than 15 minutes on 2 cores), and kept in $QUORATE_CACHE"
    ensure_node_image
  fi
  create_cluster "$source"
  mark_created
}

delete_cluster() {
  logged kind-delete kind_command delete cluster --name "$cluster" --kubeconfig "$(kubeconfig_path)"
}

down() {
  if ! engine_answers; then
    step "the Docker engine does not run: nothing to remove"
    return
  fi
  if ! cluster_exists; then
    step "there is no cluster $cluster"
    return
  fi
  ensure_kind
  step "delete cluster $cluster"
  delete_cluster
  step "deleted"
}

status() {
  printf 'cache:      %s (%s)\n' "$QUORATE_CACHE" "$(du -sh "$QUORATE_CACHE" 2>/dev/null | cut -f1)"
  if ! engine_answers; then
    printf 'engine:     does not answer\n'
    return
  fi
  printf 'engine:     %s\n' "$(docker version --format '{{.Server.Version}}')"
  printf 'kubeconfig: %s\n' "$(kubeconfig_path)"
  docker ps -a --filter "label=io.x-k8s.kind.cluster=$cluster" --format 'node:       {{.Names}}  {{.Status}}  {{.Image}}'
  if [[ -n $(cluster_containers --filter status=running) ]]; then kubectl_in_node get nodes -o wide || true; fi
}

# images makes the data-store images present in the local engine.
images() {
  ensure_engine
  if [[ $(image_source) == public ]]; then
    write_public_datastores_env
    pull_datastore_images
  else
    ensure_datastore_images
    load_datastore_images
  fi
}

# load IMAGE... copies local images into every node at once.
load() {
  local work node pids=() pid failed=0
  [[ $# -gt 0 ]] || die "load needs at least one image" "kind.sh load quorate:dev"
  cluster_exists || die "there is no cluster $cluster" "kind.sh up"
  [[ -n $(cluster_containers --filter status=running) ]] || die "no node of cluster $cluster runs" "kind.sh up starts them"
  work=$(scratch load)
  # shellcheck disable=SC2064 # the value of now is the one to remove
  trap "rm -rf '$work'" EXIT
  # The engine (20.10) has been seen to say of an image that it had just built that it does not exist.
  docker save -o "$work/images.tar" "$@" || { sleep 2; docker save -o "$work/images.tar" "$@"; }
  for node in $(cluster_containers --filter status=running); do
    docker exec -i "$node" ctr -n k8s.io images import --all-platforms --digests --snapshotter overlayfs - \
      <"$work/images.tar" >"$work/$node.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  if [[ $failed -ne 0 ]]; then
    cat "$work"/*.log >&2
    die "an import failed on a node" "kind.sh status shows whether all nodes run"
  fi
  for node in $(cluster_containers --filter status=running); do forget_unnamed "$node"; done
  step "loaded $* into ${#pids[@]} nodes"
}

# forget_unnamed NODE drops images that no tag leads to any more. Each import leaves the image before it under names that nobody asks for, and
# the disk of the nodes is that of this machine.
forget_unnamed() {
  # shellcheck disable=SC2016 # expanded on the node
  docker exec "$1" bash -c '
    all=$(ctr -n k8s.io images ls 2>/dev/null | awk "NR > 1 { print \$1, \$3 }")
    kept=$(awk "!/^(sha256:|import-)/ { print \$2 }" <<<"$all")
    awk "/^(sha256:|import-)/" <<<"$all" | grep -v -F "$kept" | cut -d" " -f1 | xargs -r ctr -n k8s.io images rm >/dev/null 2>&1
  ' || true # A node that has no room says so itself.
}
