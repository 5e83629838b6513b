# `kind.sh check`: does the cluster do what the tests take for granted? In a namespace that
# enforces the restricted Pod Security Standard: each data-store image runs as an arbitrary user
# on a read-only root, pods on all nodes reach each other by address and by name, claims bind.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of kind.sh and the other parts

check_namespace=quorate-check

# restricted_pod_spec NAME IMAGE COMMAND... prints the part of a pod spec that all checks share.
restricted_pod_spec() {
  local image=$1
  shift
  cat <<YAML
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 12345, runAsGroup: 12345, fsGroup: 12345, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: main
      image: $image
      command: [$(printf '"%s",' "$@" | sed 's/,$//')]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: data, mountPath: /data}]
YAML
}

version_pods() {
  local key engine program
  for key in "${datastore_keys[@]}"; do
    engine=$(engine_of "$key")
    program=$engine-server
    if [[ $engine == etcd ]]; then program=etcd; fi
    printf -- '---\napiVersion: v1\nkind: Pod\nmetadata: {name: version-%s}\nspec:\n  restartPolicy: Never\n' \
      "$(tr '[:upper:]_' '[:lower:]-' <<<"$key")"
    restricted_pod_spec "$(image_of "$key")" "$program" --version
    printf '  volumes: [{name: data, emptyDir: {}}]\n'
  done
}

# network_pods: one Redis on every node behind a headless Service, each with a claim.
network_pods() {
  cat <<YAML
---
apiVersion: v1
kind: Service
metadata: {name: check}
spec: {clusterIP: None, selector: {app: check}, ports: [{port: 6379}]}
---
apiVersion: v1
kind: Service
metadata: {name: check-vip}
spec: {selector: {app: check}, ports: [{port: 6379}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: check}
spec:
  replicas: 3
  serviceName: check
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: check}}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
  template:
    metadata: {labels: {app: check}}
    spec:
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: check}}}
$(restricted_pod_spec "$(image_of REDIS_7_0)" redis-server --protected-mode no --appendonly yes | sed 's/^/    /')
YAML
}

check_kubectl() { kubectl_in_node -n "$check_namespace" "$@" </dev/null; }

expect_pong() {
  local from=$1 host=$2 answer
  answer=$(check_kubectl exec "$from" -- timeout 5 redis-cli -h "$host" ping 2>&1) || true
  [[ $answer == PONG ]] || die "$from cannot reach $host: $answer" "kind.sh routes; kind.sh status"
}

check_network() {
  local from to ip
  for from in check-0 check-1 check-2; do
    for to in check-0 check-1 check-2; do
      ip=$(check_kubectl get pod "$to" -o 'jsonpath={.status.podIP}')
      expect_pong "$from" "$ip"
      expect_pong "$from" "$to.check.$check_namespace.svc.cluster.local"
    done
    expect_pong "$from" "check-vip.$check_namespace"
  done
  step "pods on three nodes reach each other by address, by name and through a Service"
}

check_versions() {
  local pod
  for pod in $(check_kubectl get pods -o name | grep version-); do
    check_kubectl wait --for=jsonpath='{.status.phase}'=Succeeded "$pod" --timeout=60s >/dev/null
    step "${pod#pod/}: $(check_kubectl logs "$pod" | head -n 1)"
  done
}

# A request with a service account's token must appear in the audit log.
check_audit() {
  local token user=system:serviceaccount:$check_namespace:default
  token=$(check_kubectl create token default)
  docker exec "$control_plane" kubectl --kubeconfig=/dev/null --server="https://$control_plane:6443" \
    --insecure-skip-tls-verify --token="$token" get pods >/dev/null 2>&1 || true
  docker exec "$control_plane" grep -q "\"username\":\"$user\"" /var/log/kubernetes/audit.log ||
    die "the API server's audit log does not show a request of $user" "kind.sh down; kind.sh up"
  step "the audit log shows requests of service accounts"
}

check() {
  ensure_servers
  kubectl_in_node delete namespace "$check_namespace" --ignore-not-found >/dev/null
  kubectl_in_node create namespace "$check_namespace" >/dev/null
  kubectl_in_node label namespace "$check_namespace" pod-security.kubernetes.io/enforce=restricted >/dev/null
  check_kubectl wait --for=create serviceaccount/default --timeout=30s >/dev/null
  { version_pods; network_pods; } | kubectl_in_node -n "$check_namespace" apply -f - >/dev/null
  check_kubectl rollout status statefulset/check --timeout=120s >&2
  step "claims bound: $(check_kubectl get pvc -o 'jsonpath={.items[*].status.phase}')"
  check_network
  check_versions
  check_audit
  kubectl_in_node delete namespace "$check_namespace" --wait=false >/dev/null
  step "the cluster is as tests expect it"
}
