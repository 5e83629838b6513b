# The clusters of make demo.
kubectl apply --server-side -f config/samples/etcdcluster.yaml -f config/samples/rediscluster.yaml
kubectl wait --for=condition=Ready -f config/samples/etcdcluster.yaml -f config/samples/rediscluster.yaml --timeout=5m
