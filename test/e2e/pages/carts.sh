# A RedisCluster of three shards with a replica each.
kubectl apply --server-side -f - <<YAML
apiVersion: quorate.dev/v1alpha1
kind: RedisCluster
metadata: {name: carts}
spec:
  engine: redis
  version: $REDIS_7_0
  shards: 3
  replicasPerShard: 1
  storage: {size: 1Gi}
YAML
kubectl wait --for=condition=Ready rediscluster/carts --timeout=5m
