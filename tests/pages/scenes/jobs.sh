# A server with queues, a dozen jobs that run (1 to 12, of which some have other names), and the files that pages name.
set -e
cat >train.yaml <<'END'
name: train
resources: {cpus: 0.1}
run: echo "epoch 1, rate ${LR:-1}"
END
cat >low.yaml <<'END'
name: low
resources: {cpus: 0.1}
run: sleep 600
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
