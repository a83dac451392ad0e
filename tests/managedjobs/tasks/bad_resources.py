"""Task files whose `resources` are wrong; see `bad_files`."""

from typing import Final

RESOURCES: Final = {
    "a number as resources": (
        "resources: 4\nrun: train\n",
        "task.yaml:1: resources: must be a map, but is a number; write for example {cpus: 4, memory: 16GB}",
    ),
    "no CPUs": (
        "resources:\n  cpus: 0\nrun: train\n",
        "task.yaml:2: resources.cpus: 0 CPUs cannot run anything; ask for more than 0, such as 0.5 or 1",
    ),
    "fewer than no CPUs": (
        "resources:\n  cpus: -1\nrun: train\n",
        'task.yaml:2: resources.cpus: -1 is no number of CPUs; write for example 4, 0.5 or "4+"',
    ),
    "CPUs in words": (
        "resources:\n  cpus: lots\nrun: train\n",
        'task.yaml:2: resources.cpus: "lots" is no number of CPUs; write for example 4, 0.5 or "4+"',
    ),
    "CPUs: true": (
        "resources:\n  cpus: true\nrun: train\n",
        'task.yaml:2: resources.cpus: true is no number of CPUs; write for example 4, 0.5 or "4+"',
    ),
    "CPUs: a list": (
        "resources:\n  cpus: [1, 2]\nrun: train\n",
        'task.yaml:2: resources.cpus: [1, 2] is no number of CPUs; write for example 4, 0.5 or "4+"',
    ),
    "CPUs without end": (
        "resources:\n  cpus: 99999999\nrun: train\n",
        "task.yaml:2: resources.cpus: 99999999 CPUs is more than any machine has; ask for at most 1000000",
    ),
    "memory in words": (
        "resources:\n  memory: lots\nrun: train\n",
        'task.yaml:2: resources.memory: "lots" is no amount of memory; write for example 16, "16+" or 16GB',
    ),
    "no memory": (
        "resources:\n  memory: 0\nrun: train\n",
        'task.yaml:2: resources.memory: 0 is no amount of memory; ask for more than 0, such as 16, "16+" or 16GB',
    ),
    "memory without end": (
        "resources:\n  memory: 9000TB\nrun: train\n",
        'task.yaml:2: resources.memory: "9000TB" is more than any machine has; ask for at most 1PB',
    ),
    "no accelerators of a model": (
        "resources:\n  accelerators: T4:0\nrun: train\n",
        (
            "task.yaml:2: resources.accelerators: 0 accelerators cannot be had; ask for 1 to 1024, or leave the field "
            "out"
        ),
    ),
    "half an accelerator": (
        "resources:\n  accelerators: T4:0.5\nrun: train\n",
        (
            "task.yaml:2: resources.accelerators: 0.5 is a part of an accelerator, and jobs get whole ones; ask for 1 "
            "or more"
        ),
    ),
    "a model that is a number": (
        "resources:\n  accelerators: '2:4'\nrun: train\n",
        ('task.yaml:2: resources.accelerators: "2" is a number, not a model; write 2 alone for any model, or T4:2'),
    ),
    "half of any accelerator": (
        "resources:\n  accelerators: 0.5\nrun: train\n",
        (
            "task.yaml:2: resources.accelerators: 0.5 is a part of an accelerator, and jobs get whole ones; ask for 1 "
            "or more"
        ),
    ),
    "an empty list of accelerators": (
        "resources:\n  accelerators: []\nrun: train\n",
        (
            "task.yaml:2: resources.accelerators: the list is empty; write for example T4, T4:4 or {T4: 4}, or leave "
            "it out"
        ),
    ),
    "many accelerators": (
        "resources:\n  accelerators: {T4: many}\nrun: train\n",
        (
            'task.yaml:2: resources.accelerators.T4: "many" is no number of accelerators; write for example T4, T4:4 '
            "or {T4: 4}"
        ),
    ),
    "a TPU": (
        "resources:\n  accelerators: tpu-v3-8\nrun: train\n",
        (
            "task.yaml:2: resources.accelerators: tpu-v3-8 is a TPU, and only GPUs can be asked for here; name one, "
            "such as T4:1"
        ),
    ),
    "an accelerator with spaces": (
        "resources:\n  accelerators: T4 x 4\nrun: train\n",
        (
            'task.yaml:2: resources.accelerators: "T4 x 4" is not the name of an accelerator; write for example T4, '
            "T4:4 or {T4: 4}"
        ),
    ),
    "accelerators: none": (
        "resources:\n  accelerators: none\nrun: train\n",
        "task.yaml:2: resources.accelerators: none is no accelerator; leave the field out to ask for none",
    ),
    "a priority too high": (
        "resources:\n  priority: 5000000000\nrun: train\n",
        (
            "task.yaml:2: resources.priority: must be from -2147483648 to 2147483647, but is 5000000000; write for "
            "example 100 (higher goes first)"
        ),
    ),
    "a priority in words": (
        "resources:\n  priority: high\nrun: train\n",
        (
            'task.yaml:2: resources.priority: must be an integer, but is "high"; write for example 100 (higher '
            "goes first)"
        ),
    ),
    "a priority and a class": (
        "resources:\n  priority: 5\n  labels:\n    kueue.x-k8s.io/priority-class: high\nrun: train\n",
        (
            "task.yaml:2: resources.priority: the label kueue.x-k8s.io/priority-class says the priority too; keep one "
            "of them"
        ),
    ),
    "two classes": (
        "resources:\n  priority_class: low\n  labels:\n    kueue.x-k8s.io/priority-class: high\nrun: train\n",
        (
            "task.yaml:2: resources.priority_class: the label kueue.x-k8s.io/priority-class names another class; keep "
            "one of them"
        ),
    ),
    "a label with a space": (
        "resources:\n  labels:\n    my team: a\nrun: train\n",
        (
            'task.yaml:3: resources.labels[my team]: "my team" is not the name of a label; use letters, digits, `-`, '
            "`_` and `.`, at most 63, such as team or example.com/team"
        ),
    ),
    "a label with a space in its value": (
        "resources:\n  labels:\n    team: my team\nrun: train\n",
        (
            'task.yaml:3: resources.labels.team: "my team" is not the value of a label; use letters, digits, `-`, `_` '
            "and `.`, at most 63, with a letter or digit at both ends"
        ),
    ),
    "a label without a value": (
        "resources:\n  labels:\n    team:\nrun: train\n",
        "task.yaml:3: resources.labels.team: must be text, but is nothing; write for example research",
    ),
    "a list of labels": (
        "resources:\n  labels: [team]\nrun: train\n",
        "task.yaml:2: resources.labels: must be a map, but is a list; write for example {team: research}",
    ),
    "a number as image": (
        "resources:\n  image_id: 5\nrun: train\n",
        "task.yaml:2: resources.image_id: must be text, but is a number; write for example docker:ubuntu:22.04",
    ),
    "an image for each region": (
        "resources:\n  image_id: {us-east-1: ami}\nrun: train\n",
        "task.yaml:2: resources.image_id: must be text, but is a map; write for example docker:ubuntu:22.04",
    ),
    "an image with spaces": (
        "resources:\n  image_id: my image\nrun: train\n",
        (
            'task.yaml:2: resources.image_id: "my image" is not the name of an image; write for example '
            "docker:ubuntu:22.04"
        ),
    ),
    "another cloud": (
        "resources:\n  infra: aws/us-east-1\nrun: train\n",
        (
            'task.yaml:2: resources.infra: Fairway runs no jobs on "aws/us-east-1"; write `infra: k8s` for here, '
            "`infra: k8s/CONTEXT` for another Fairway server, or leave it out"
        ),
    ),
    "only other clouds": (
        "resources:\n  any_of:\n  - infra: aws\n  - infra: gcp\nrun: train\n",
        (
            'task.yaml:3: resources.any_of[0].infra: Fairway runs no jobs on "aws"; write `infra: k8s` for here, '
            "`infra: k8s/CONTEXT` for another Fairway server, or leave it out"
        ),
    ),
    "a cloud with a typo": (
        "resources:\n  cloud: kuberntes\nrun: train\n",
        'task.yaml:2: resources.cloud: "kuberntes" is not known; did you mean kubernetes?',
    ),
    "infra and cloud": (
        "resources:\n  infra: k8s\n  cloud: kubernetes\nrun: train\n",
        "task.yaml:3: resources.cloud: infra says the same and more; remove cloud",
    ),
    "no candidates": (
        "resources:\n  any_of: []\nrun: train\n",
        ("task.yaml:2: resources.any_of: must be a list of candidates, but is empty; write for example [{infra: k8s}]"),
    ),
    "a map of candidates": (
        "resources:\n  ordered: {cpus: 1}\nrun: train\n",
        (
            "task.yaml:2: resources.ordered: must be a list of candidates, but is a map; write for example [{infra: "
            "k8s}]"
        ),
    ),
    "text as candidate": (
        "resources:\n  ordered:\n  - cpus: 1\n  - k8s\nrun: train\n",
        "task.yaml:4: resources.ordered[1]: must be a map, but is text; write for example {infra: k8s, cpus: 4}",
    ),
    "both lists": (
        "resources:\n  any_of: [{cpus: 1}]\n  ordered: [{cpus: 2}]\nrun: train\n",
        "task.yaml:3: resources.ordered: any_of and ordered cannot be given both; keep one of them",
    ),
    "candidates of a candidate": (
        "resources:\n  any_of:\n  - ordered: [{cpus: 1}]\nrun: train\n",
        (
            "task.yaml:3: resources.any_of[0].ordered: there is no such field; a candidate has no candidates of its "
            "own; write one list"
        ),
    ),
    "candidates that differ in priority": (
        "resources:\n  any_of:\n  - {cpus: 1, priority: 1}\n  - {cpus: 2, priority: 2}\nrun: train\n",
        (
            "task.yaml:4: resources.any_of[1].priority: priority must be the same for all candidates; write it once, "
            "beside any_of or ordered"
        ),
    ),
    "restarts: a typo": (
        "resources:\n  job_recovery:\n    max_restarts: 3\nrun: train\n",
        (
            "task.yaml:3: resources.job_recovery.max_restarts: there is no such field; did you mean "
            "max_restarts_on_errors?"
        ),
    ),
    "restarts: an exit code that is none": (
        "resources:\n  job_recovery:\n    recover_on_exit_codes: [33, 256]\nrun: train\n",
        (
            "task.yaml:3: resources.job_recovery.recover_on_exit_codes[1]: must be from 0 to 255, but is 256; write "
            "for example 33, or a list such as [33, 34]"
        ),
    ),
    "restarts: a strategy with a typo": (
        "resources:\n  job_recovery: FAILVOER\nrun: train\n",
        'task.yaml:2: resources.job_recovery: "FAILVOER" is no strategy; did you mean FAILOVER?',
    ),
    "restarts: fewer than none": (
        "resources:\n  job_recovery:\n    max_restarts_on_errors: -1\nrun: train\n",
        (
            "task.yaml:3: resources.job_recovery.max_restarts_on_errors: must be from 0 to 1000000, but is -1; write "
            "for example 3"
        ),
    ),
    "volumes in resources": (
        "resources:\n  volumes: [{path: /data}]\nrun: train\n",
        ("task.yaml:2: resources.volumes: volumes cannot be mounted here; use file_mounts, or a path of this machine"),
    ),
}
