# An EtcdCluster of one member with storage.
kubectl apply --server-side -f - <<YAML
apiVersion: quorate.dev/v1alpha1
kind: EtcdCluster
metadata: {name: orders}
spec:
  size: 1
  version: $ETCD_3_6
  storage: {size: 1Gi}
YAML
kubectl wait --for=condition=Ready etcdcluster/orders --timeout=3m
