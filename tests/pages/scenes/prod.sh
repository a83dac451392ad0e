# A cluster with Fairway, its Kueue and the queue `user-queue` in team-a, as the contexts prod and dev.
set -e
fairway cluster install --image registry.example.com/fairway:0.1.0
fairway cluster doctor --fix -y
. $SCENES/contexts.sh
fairway use dev
fairway teams add team-a --cpus 2
kubectl apply -f - <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: team-a, name: user-queue}
spec: {clusterQueue: team-a}
END
cat >train.yaml <<'END'
name: train
resources: {cpus: 1, image_id: "docker:python:3.11"}
run: echo epoch 1
END
set +e
