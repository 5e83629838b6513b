# A manifest that somebody has edited and not applied.
cat > edited.yaml <<YAML
apiVersion: quorate.dev/v1alpha1
kind: EtcdCluster
metadata: {name: orders}
spec:
  size: 3
  version: $ETCD_3_6
  storage: {size: 1Gi}
YAML
