# A namespace of its own with a LocalQueue `default`, whose quota has room for one Ray job; it is the current namespace.
set -e
cp "$KUBECONFIG" ~/kubeconfig && export KUBECONFIG=~/kubeconfig
kubectl create namespace ray-trial && kubectl config set-context --current --namespace=ray-trial
kubectl apply -f - <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: ray-trial}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: ray-trial}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{name: ray-trial, resources: [{name: cpu, nominalQuota: 4}, {name: memory, nominalQuota: 8Gi}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: ray-trial, name: default}
spec: {clusterQueue: ray-trial}
END
set +e
