# A cluster, and a Backup of it on a claim, in the place of one in a bucket.
bash -euo pipefail "$PAGES/orders.sh"
# On the node of the member: where disks belong to nodes, a backup is restored in place there only.
node=$(kubectl get pod orders-0 -o jsonpath='{.spec.nodeName}')
kubectl apply --server-side -f - <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, annotations: {volume.kubernetes.io/selected-node: $node}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: quorate.dev/v1alpha1
kind: Backup
metadata: {name: orders-before-upgrade}
spec:
  cluster: {kind: EtcdCluster, name: orders}
  destination: {url: "pvc://backups/orders"}
YAML
