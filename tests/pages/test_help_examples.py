"""Every example of the help texts works, on a server where the jobs are that it names."""

from pathlib import Path

from .examples import NEEDS, all_examples, run_example
from .shell import Shell

RUNNING = "rm -f ~/stop; fairway jobs retry 3-9; fairway jobs launch -d -n sweep low.yaml"
ENDING = "touch ~/stop; fairway jobs retry 3; true"
"""The jobs of the scene run until there is a file ~/stop."""

TEAMS = "for team in vision speech; do fairway teams add $team --cpus 1; done"
GROUPS = (
    f"{TEAMS}; fairway users groups remove ml; fairway users groups add ml --team vision --team speech;"
    " fairway users groups add interns --team vision"
)
NO_USERS = f"{GROUPS}; for user in ana ben eva kim grafana; do fairway users remove $user; done"
USERS = (
    f"{NO_USERS}; fairway users add ben --team vision; fairway users add ana --role admin --everywhere;"
    " fairway users add kim --group interns"
)

CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    " -addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
)
POD = """kubectl apply -f - <<'END'
apiVersion: v1
kind: Pod
metadata: {name: sample-job-abcde}
spec: {restartPolicy: Never, containers: [{name: main, image: any, command: [/bin/echo, hello]}]}
END
kubectl wait --for=jsonpath={.status.phase}=Succeeded pod/sample-job-abcde"""

GENERATOR = """cat >generator.yaml <<'END'
cohorts:
- {className: cohort, count: 1, queuesSets: [{className: cq, count: 2, nominalQuota: 2, workloadsSets: [
    {count: 5, creationIntervalMs: 100, workloads: [{className: small, runtimeMs: 900, request: 1}]}]}]}
END"""

SCHEDULED = """cat >job.yaml <<'END'
apiVersion: batch/v1
kind: Job
metadata: {name: scheduled}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: any, command: [/bin/echo, hello]}]}}}
END
echo 'resources: [job.yaml]' >kustomization.yaml"""

BEFORE = {
    "fairway schedule": SCHEDULED,
    "fairway users add": NO_USERS,
    "fairway users edit": USERS,
    "fairway users token": USERS,
    "fairway users remove": USERS,
    "fairway users groups": f"{TEAMS}; fairway users groups remove ml; true",
    "fairway users groups edit": GROUPS,
    "fairway users groups remove": GROUPS,
    "fairway teams add": "for team in vision speech; do fairway teams remove -y $team; done",
    "fairway teams set": TEAMS,
    "fairway teams remove": TEAMS,
    "fairway launch -c dev": "fairway down -y dev; true",
    "fairway launch --cpus 2": "echo 'test:' >Makefile",
    "fairway jobs logs": ENDING,
    "fairway jobs wait": ENDING,
    "fairway logs": ENDING,
    "fairway jobs cancel": RUNNING,
    "fairway jobs hold": RUNNING,
    "fairway jobs priority": RUNNING,
    "fairway jobs retry": f"{RUNNING}; fairway jobs cancel 3 5-9",
    "fairway jobs release": f"{RUNNING}; fairway jobs hold 3",
    "fairway status dev": "fairway launch -d -c dev low.yaml; true",
    "fairway down": "fairway launch -d -c dev low.yaml; true",
    "fairway queues": "fairway apply -f queues.yaml",
    "fairway delete clusterqueue": "fairway apply -f queues.yaml",
    "fairway delete -f": "fairway apply -f queues.yaml",
    "fairway delete pod/one": "for one in one two; do kubectl run $one --image=any --command -- sleep 9; done",
    "fairway simulate": "fairway apply -f queues.yaml",
    "fairway simulate --priority": RUNNING,
    "fairway simulate --trace": "printf '; MaxProcs: 4\\n1 0 0 9 4 -1 -1 4 9 -1 1 1 1 -1 1 -1 -1 -1\\n' >jobs.swf",
    "fairway simulate --generate": GENERATOR,
    "fairway restore": "fairway shutdown --jobs; test -f ~/fairway.tar || fairway backup ~/fairway.tar",
    "fairway up": "fairway shutdown",
    "fairway use prod": "kubectl config set-context prod --cluster=fairway --user=fairway",
    "fairway serve": f"fairway shutdown; {CERTIFICATE}",
    "fairway logs pod/sample-job-abcde": POD,
}
"""What has to be so before examples that begin with these words; the longest that fits."""


def before(example: str) -> str:
    words = example[example.index("fairway") :]
    fitting = [start for start in BEFORE if f"{words} ".startswith(f"{start} ")]
    return BEFORE[max(fitting, key=len)] if fitting else ""


def test_the_examples_of_all_commands_work(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        assert shell.run("export KUBECONFIG=~/.fairway/kubeconfig; . $SCENES/jobs.sh").exit_code == 0
        failed = []
        for example in all_examples():
            if example in NEEDS:
                continue
            shell.run(before(example) or "true")
            done = run_example(shell, example)
            if done.exit_code:
                failed.append("\n".join([f"$ {example}", *done.lines, f"exit code {done.exit_code}"]))
        assert not failed, "\n\n".join(failed)


def test_what_is_not_run_is_still_an_example() -> None:
    assert NEEDS.keys() - set(all_examples()) == set()
