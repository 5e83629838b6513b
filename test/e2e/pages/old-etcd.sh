# A plain StatefulSet of etcd with data, as somebody else runs it, and an empty EtcdCluster.
kubectl apply --server-side -f - <<YAML
apiVersion: v1
kind: Service
metadata: {name: old-etcd}
spec:
  clusterIP: None
  selector: {app: old-etcd}
  ports: [{name: client, port: 2379}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: old-etcd}
spec:
  serviceName: old-etcd
  selector: {matchLabels: {app: old-etcd}}
  template:
    metadata: {labels: {app: old-etcd}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: etcd
        image: quay.io/coreos/etcd:v$ETCD_3_5
        command: [etcd, --data-dir=/data/etcd, "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://old-etcd:2379"]
        readinessProbe: {httpGet: {path: /health, port: 2379}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
YAML
bash -euo pipefail "$PAGES/orders.sh"
kubectl rollout status statefulset/old-etcd --timeout=2m
kubectl port-forward service/old-etcd 32379:2379 > /dev/null &
forward=$!
old=(etcdctl --endpoints=http://127.0.0.1:32379 --dial-timeout=5s --command-timeout=5s)
until "${old[@]}" endpoint health; do sleep 1; done
for i in $(seq 50); do "${old[@]}" put "/app/$i" "value $i"; done > /dev/null
kill "$forward"
