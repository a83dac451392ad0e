# The cluster of $KUBECONFIG as the contexts prod and dev, in a kubeconfig of its own.
cp "$KUBECONFIG" ~/kubeconfig && export KUBECONFIG=~/kubeconfig && cp ~/kubeconfig .
kubectl config rename-context "$(kubectl config current-context)" dev
kubectl config set-context prod --cluster="$(kubectl config view -o jsonpath={.clusters[0].name})" --user="$(kubectl config view -o jsonpath={.users[0].name})"
