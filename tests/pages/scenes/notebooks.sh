# A server with the RayCluster `notebooks`, which is ready.
fairway up --cpus 2 && export KUBECONFIG=~/.fairway/kubeconfig
kubectl apply -f - <<'END'
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: notebooks, labels: {kueue.x-k8s.io/queue-name: default}}
spec:
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head, image: rayproject/ray:2.60.0, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}}]}}
END
kubectl wait raycluster notebooks --for=jsonpath={.status.state}=ready --timeout=10m
