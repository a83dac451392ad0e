# A server with queues, the files that pages name, and a dozen jobs that run until there is a file ~/stop: train (1 to 9), sweep, dev.
set -e
cat >train.yaml <<'END'
name: train
resources: {cpus: 0.1}
run: mkdir checkpoints && touch model.pt checkpoints/last.pt && echo "epoch 1, rate ${LR:-1}"
END
cat >low.yaml <<'END'
name: low
resources: {cpus: 0.1}
run: mkdir checkpoints && touch model.pt checkpoints/last.pt && until [ -e ~/stop ]; do sleep 0.5; done
END
cat >queues.yaml <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default-flavor, resources: [{name: cpu, nominalQuota: 1}]}]
END
echo 'print("trained")' >train.py
cp examples/eval.yaml .
mkdir -p manifests backups && cp queues.yaml manifests/
cat >job.yaml <<'END'
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: any, command: [/bin/echo, hello]}]}}}
END
export LR=0.1 HF_TOKEN=hf_0
fairway up --cpus 16 --memory 64Gi --gpus T4:8
fairway apply -f examples/queues.yaml -f queues.yaml -f - <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: default, name: research}
spec: {clusterQueue: cluster-queue}
END
fairway jobs launch -d -n train --num-jobs 9 low.yaml
fairway jobs launch -d -n sweep --num-jobs 3 low.yaml
fairway launch -d -c dev low.yaml
set +e
