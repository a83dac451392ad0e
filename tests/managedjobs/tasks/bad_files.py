"""Task files that are wrong, each with the one sentence that says so: file, line, field, what is wrong, the way out."""

from typing import Final

from .bad_resources import RESOURCES

NO_TEXT_AT_ALL: Final[dict[str, tuple[str | bytes, str]]] = {
    "empty": (
        "",
        "task.yaml:1: the file is empty; a task file is a map of fields such as `run: echo hello`",
    ),
    "only blank lines": (
        "\n\n  \n",
        "task.yaml:1: the file is empty; a task file is a map of fields such as `run: echo hello`",
    ),
    "only comments": (
        "# nothing here\n# nor here\n",
        ("task.yaml:1: the file holds nothing but comments; a task file is a map of fields such as `run: echo hello`"),
    ),
    "a null": (
        "null\n",
        "task.yaml:1: the file holds no fields; a task file is a map of fields such as `run: echo hello`",
    ),
    "a list": (
        "- cpus: 4\n- run: train\n",
        (
            'task.yaml:1: a task file is a map of fields such as `run: echo hello`, but this is a list: [{"cpus": 4}, '
            '{"run": "train"}]'
        ),
    ),
    "plain text": (
        "python train.py\n",
        ('task.yaml:1: a task file is a map of fields such as `run: echo hello`, but this is text: "python train.py"'),
    ),
    "a number": (
        "42\n",
        "task.yaml:1: a task file is a map of fields such as `run: echo hello`, but this is a number: 42",
    ),
    "binary": (
        b"\x7fELF\x02\x01\x01\x00\x00",
        "task.yaml:1: this is a binary file (it holds NUL bytes); give a YAML file",
    ),
    "NUL bytes in the third line": (
        b"run: train\nname: a\nenvs: \x00\n",
        "task.yaml:3: this is a binary file (it holds NUL bytes); give a YAML file",
    ),
    "Latin-1": (
        b"run: caf\xe9\n",
        "task.yaml:1: the byte 0xe9 is not UTF-8; save the file as UTF-8 text",
    ),
    "UTF-16": (
        b"\xff\xfer\x00u\x00n\x00:\x00 \x00t\x00r\x00a\x00i\x00n\x00\n\x00",
        "task.yaml:1: this is UTF-16; save the file as UTF-8 text",
    ),
    "a bell": (
        "run: train\nname: a\x07b\n",
        "task.yaml:2:8: the character U+0007 is not allowed in a task file; remove it",
    ),
    "a Kubernetes object": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n",
        'task.yaml:2: kind: this is a Kubernetes object ("Pod"), not a task; use `fairway apply -f`',
    ),
}

YAML: Final = {
    "a tab for indentation": (
        "resources:\n\tcpus: 4\nrun: train\n",
        "task.yaml:2: a tab is used for indentation; YAML allows spaces only, so write spaces instead",
    ),
    "a tab after spaces": (
        "resources:\n  \tcpus: 4\nrun: train\n",
        "task.yaml:2: a tab is used for indentation; YAML allows spaces only, so write spaces instead",
    ),
    "a tab below a value": (
        "name: a\n\trun: train\n",
        "task.yaml:2: a tab is used for indentation; YAML allows spaces only, so write spaces instead",
    ),
    "a key twice": (
        "name: a\nrun: train\nname: b\n",
        'task.yaml:3:1: the key "name" is there twice, first in line 1; remove one of them',
    ),
    "a nested key twice": (
        "resources:\n  cpus: 1\n  memory: 2\n  cpus: 3\nrun: train\n",
        'task.yaml:4:3: the key "cpus" is there twice, first in line 2; remove one of them',
    ),
    "a list that is not closed": (
        "resources: {any_of: [{cpus: 1}\nrun: train\n",
        "task.yaml:1:21: the `[` that is opened here is not closed where it should be; add a `]` or a comma",
    ),
    "a map that is not closed": (
        "envs: {A: 1\nrun: train\n",
        "task.yaml:1:7: the `{` that is opened here is not closed where it should be; add a `}` or a comma",
    ),
    "a quote that is not closed": (
        'name: "train\nrun: train\n',
        "task.yaml:1:7: the quote that is opened here is never closed; close it",
    ),
    "a single quote that is not closed": (
        "name: 'it''s\nrun: train\n",
        "task.yaml:1:7: the quote that is opened here is never closed; close it",
    ),
    "a colon in a value": (
        "run: echo: hello\n",
        (
            "task.yaml:1:10: a `:` stands where none can be; indent the line as its neighbours are, or put the text "
            "in quotes"
        ),
    ),
    "a line indented too little": (
        "resources:\n    cpus: 4\n  memory: 16\nrun: train\n",
        "task.yaml:3:3: this line is indented differently from its neighbours; align them",
    ),
    "a line indented too much": (
        "name: a\n  run: train\n",
        (
            "task.yaml:2:6: a `:` stands where none can be; indent the line as its neighbours are, or put the text in "
            "quotes"
        ),
    ),
    "a line without a colon": (
        "name\nrun: train\n",
        (
            "task.yaml:2:4: a `:` stands where none can be; indent the line as its neighbours are, or put the text in "
            "quotes"
        ),
    ),
    "a script that is not indented": (
        "run: |\n  cd src\n python train.py\n",
        "task.yaml:3:2: this line is indented differently from its neighbours; align them",
    ),
    "a value that begins with @": (
        "name: @home\nrun: train\n",
        "task.yaml:1:7: a value cannot begin with @; put it in quotes",
    ),
    "a value that begins with %": (
        "name: %home\nrun: train\n",
        "task.yaml:1:7: a value cannot begin with %; put it in quotes",
    ),
    "a backslash in double quotes": (
        'run: "C:\\data"\n',
        "task.yaml:1:9: there is no such escape in double quotes; write `\\\\` for a backslash",
    ),
    "an item behind a key": (
        "run: - train\n",
        "task.yaml:1:6: a list begins where none can be; put its first `- ` on a line of its own",
    ),
    "a key among items": (
        "- a\nrun: train\n",
        "task.yaml:2:1: this line is neither an item (`- `) of the list nor below it; align them",
    ),
    "text behind a bar": (
        "run: |train\n  now\n",
        "task.yaml:1:7: the rest of the line after `|` or `>` must be empty; begin a new line",
    ),
    "a number as key": (
        "envs:\n  1: a\nrun: train\n",
        'task.yaml:2:3: the key 1 is not text; write it as "1"',
    ),
    "a boolean as key": (
        "on: push\nrun: train\n",
        'task.yaml:1:1: the key on is not text; write it as "on"',
    ),
    "a list as key": (
        "? [a, b]\n: c\nrun: train\n",
        "task.yaml:1:3: a list or a map is the key of a map; only strings can be: put it in quotes",
    ),
    "a tag of somebody's": (
        "name: !Ref train\nrun: train\n",
        "task.yaml:1:7: the tag !Ref means nothing here; remove it",
    ),
    "a tag of Python's": (
        "name: !!python/object:os.system ls\nrun: train\n",
        "task.yaml:1:7: the tag !!python/object:os.system means nothing here; remove it",
    ),
    "an alias for nothing": (
        "name: *base\nrun: train\n",
        "task.yaml:1:7: the alias *base stands for nothing yet, or for itself; write &base before it",
    ),
    "an alias for itself": (
        "envs: &a\n  A: *a\nrun: train\n",
        "task.yaml:2:6: the alias *a stands for nothing yet, or for itself; write &a before it",
    ),
    "infinity": (
        "resources:\n  cpus: .inf\nrun: train\n",
        "task.yaml:2:9: .inf is not a number that can be used; write a finite one",
    ),
    "nesting without end": (
        "envs: " + "[" * 100 + "]" * 100,
        "task.yaml:1:70: the YAML is nested deeper than 64 levels; make it flatter",
    ),
    "a NUL behind a backslash": (
        'run: "train\\0"\n',
        "task.yaml:1:6: holds a NUL character, which no process can be given; remove it",
    ),
    "something below the end": (
        "run: train\n...\nname: a\n",
        "task.yaml:3:1: something follows the end of the document; put it on a line below `---`",
    ),
}

FIELDS: Final = {
    "a typo": (
        "run: train\nresorces:\n  cpus: 1\n",
        "task.yaml:2: resorces: there is no such field; did you mean resources?",
    ),
    "a typo in resources": (
        "resources:\n  cpu: 4\nrun: train\n",
        "task.yaml:2: resources.cpu: there is no such field; did you mean cpus?",
    ),
    "a typo in a candidate": (
        "resources:\n  ordered:\n  - cpus: 1\n  - memry: 4\nrun: train\n",
        "task.yaml:4: resources.ordered[1].memry: there is no such field; did you mean memory?",
    ),
    "a name like no other": (
        "xyzzy: 1\nrun: train\n",
        (
            "task.yaml:1: xyzzy: there is no such field; the fields here are config, envs, file_mounts, max_duration, "
            "name, num_nodes, ray, resources, run, secrets, setup, workdir"
        ),
    ),
    "a typo in the second task": (
        "run: a\n---\nstup: b\nrun: c\n",
        "task.yaml:3: stup: there is no such field; did you mean setup?",
    ),
    "a Ray cluster that is no map": (
        "run: train\nray: 2\n",
        "task.yaml:2: ray: must be a map, but is a number; write for example {workers: 2, cpus: 4}",
    ),
    "an unknown field of a Ray cluster": (
        "run: train\nray:\n  worker: 2\n",
        "task.yaml:3: ray.worker: there is no such field; did you mean workers?",
    ),
    "the head of a Ray cluster": (
        "run: train\nray: {head: {cpus: 1}}\n",
        (
            "task.yaml:2: ray.head: there is no such field; `ray` describes the workers; the head has what `resources` "
            "says"
        ),
    ),
    "fewer workers than none": (
        "run: train\nray: {workers: -1}\n",
        "task.yaml:2: ray.workers: must be from 0 to 999, but is -1; write for example 2",
    ),
    "workers without CPUs": (
        "run: train\nray: {cpus: 0}\n",
        "task.yaml:2: ray.cpus: 0 CPUs cannot run anything; ask for more than 0, such as 0.5 or 1",
    ),
    "memory of workers that is none": (
        "run: train\nray: {memory: lots}\n",
        'task.yaml:2: ray.memory: "lots" is no amount of memory; write for example 16, "16+" or 16GB',
    ),
    "workers with different GPUs": (
        "run: train\nray: {gpus: [T4:1, V100:2]}\n",
        "task.yaml:2: ray.gpus: all workers have the same number of GPUs; name one, such as T4:1",
    ),
    "accelerators of a Ray cluster": (
        "run: train\nray: {accelerators: T4}\n",
        "task.yaml:2: ray.accelerators: there is no such field; write gpus: T4:1",
    ),
    "nodes beside a Ray cluster": (
        "run: train\nnum_nodes: 3\nray: {workers: 2}\n",
        (
            "task.yaml:2: num_nodes: a task with ray has a head and ray.workers, here 2; remove it, or change "
            "ray.workers"
        ),
    ),
    "a Ray cluster among the resources": (
        "run: train\nresources:\n  ray: {workers: 1}\n",
        "task.yaml:3: resources.ray: there is no such field; ray is a field of the task: move it out of `resources`",
    ),
    "a dash for an underscore": (
        "num-nodes: 2\nrun: train\n",
        "task.yaml:1: num-nodes: there is no such field; did you mean num_nodes?",
    ),
    "a resource outside of resources": (
        "cpus: 4\nrun: train\n",
        "task.yaml:1: cpus: there is no such field; write it below `resources:`, as `resources: {cpus: …}`",
    ),
    "run inside of resources": (
        "resources:\n  run: train\n",
        ("task.yaml:2: resources.run: there is no such field; run is a field of the task: move it out of `resources`"),
    ),
    "execution in a task": (
        "execution: serial\nrun: train\n",
        "task.yaml:1: execution: belongs to the first document of a pipeline; put `---` and the tasks below it",
    ),
    "nothing to run": (
        "name: a\n",
        "task.yaml:1: run: there is nothing to run; write for example `run: echo hello`",
    ),
    "an empty run": (
        "name: a\nrun:\n",
        "task.yaml:2: run: there is nothing to run; write for example `run: echo hello`",
    ),
    "a list of commands": (
        "run:\n- cd src\n- python train.py\n",
        "task.yaml:1: run: must be a script, but is a list of commands; write `run: |`, and the commands below it",
    ),
    "a number to run": (
        "run: 5\n",
        "task.yaml:1: run: must be a script, but is a number; write `run: |`, and the commands below it",
    ),
    "a map as setup": (
        "setup:\n  pip: install\nrun: train\n",
        "task.yaml:1: setup: must be a script, but is a map; write `setup: |`, and the commands below it",
    ),
    "a list as name": (
        "name: [a]\nrun: train\n",
        "task.yaml:1: name: must be text, but is a list; write for example train",
    ),
    "nodes: none": (
        "num_nodes: 0\nrun: train\n",
        "task.yaml:1: num_nodes: must be from 1 to 1000, but is 0; write for example 2",
    ),
    "nodes: in words": (
        "num_nodes: two\nrun: train\n",
        'task.yaml:1: num_nodes: must be an integer, but is "two"; write for example 2',
    ),
    "nodes: a part": (
        "num_nodes: 1.5\nrun: train\n",
        "task.yaml:1: num_nodes: must be an integer, but is 1.5; write for example 2",
    ),
    "nodes: far too many": (
        "num_nodes: 1000000\nrun: train\n",
        "task.yaml:1: num_nodes: must be from 1 to 1000, but is 1000000; write for example 2",
    ),
    "a pool": (
        "pool: workers\nrun: train\n",
        "task.yaml:1: pool: there are no pools of workers here; remove it, and the job waits in its queue",
    ),
    "a service": (
        "service:\n  port: 8080\nrun: train\n",
        ("task.yaml:1: service: Fairway runs jobs, not services; remove it, and let `run` end when its work is done"),
    ),
    "volumes": (
        "volumes:\n  /data: my-volume\nrun: train\n",
        "task.yaml:1: volumes: volumes cannot be mounted here; use file_mounts, or a path of this machine",
    ),
    "a callback": (
        "event_callback: notify.sh\nrun: train\n",
        (
            "task.yaml:1: event_callback: there are no callbacks here; remove it, and watch the job with `fairway "
            "jobs logs` or kubectl"
        ),
    ),
    "managed secrets": (
        "managed_secrets: [token]\nrun: train\n",
        (
            "task.yaml:1: managed_secrets: there is no store of secrets here; write the names under `secrets`, and "
            "pass --secret NAME=…"
        ),
    ),
    "a hook": (
        "config:\n  hooks:\n  - run: save.sh\n    events: [preemption]\nrun: train\n",
        (
            "task.yaml:2: config.hooks: there are no hooks here; catch SIGTERM in `run` (trap), which comes before a "
            "job is stopped"
        ),
    ),
    "a job group": (
        "name: group\nexecution: parallel\n---\nrun: a\n---\nrun: b\n",
        (
            "task.yaml:2: execution: job groups (parallel) are not supported; write serial to run one task after "
            "another, or launch each task from a file of its own"
        ),
    ),
    "an execution that is not known": (
        "name: p\nexecution: random\n---\nrun: a\n",
        'task.yaml:2: execution: "random" is not known; write serial, or leave it out',
    ),
    "a duration in words": (
        "max_duration: 5 minutes\nrun: train\n",
        'task.yaml:1: max_duration: "5 minutes" is no duration; write for example 90s, 30m, 2h, 1d or 1h30m',
    ),
    "a duration of nothing": (
        "max_duration: 0\nrun: train\n",
        "task.yaml:1: max_duration: 0 is too short or too long; write 1s to ten years, such as 2h",
    ),
    "two durations": (
        "max_duration: 1h\nresources:\n  max_duration: 2h\nrun: train\n",
        "task.yaml:1: max_duration: resources.max_duration says something else; keep one of them",
    ),
    "config: a typo": (
        "config:\n  kubernets: {}\nrun: train\n",
        "task.yaml:2: config.kubernets: there is no such field; did you mean kubernetes?",
    ),
    "config: labels in the wrong place": (
        "config:\n  kubernetes:\n    pod_config:\n      labels: {a: b}\nrun: train\n",
        "task.yaml:4: config.kubernetes.pod_config.labels: there is no such field; did you mean metadata.labels?",
    ),
    "files: an unknown mode": (
        "config:\n  kubernetes:\n    files: {access_mode: ReadOnlyMany}\nrun: train\n",
        (
            'task.yaml:3: config.kubernetes.files.access_mode: "ReadOnlyMany" is not one of ReadWriteOnce, '
            "ReadWriteMany, ReadWriteOncePod"
        ),
    ),
    "files: an unknown field": (
        "config:\n  kubernetes:\n    files: {size: 1Gi}\nrun: train\n",
        (
            "task.yaml:3: config.kubernetes.files.size: there is no such field; the fields here are access_mode, "
            "image, storage_class"
        ),
    ),
    "checkpoints: no amount": (
        "config:\n  kubernetes:\n    checkpoints: {size: lots}\nrun: train\n",
        'task.yaml:3: config.kubernetes.checkpoints.size: "lots" is not an amount; write for example 50Gi',
    ),
    "checkpoints: a claim with a size": (
        "config:\n  kubernetes:\n    checkpoints: {claim: a, size: 1Gi}\nrun: train\n",
        (
            "task.yaml:3: config.kubernetes.checkpoints: a claim that exists has a size and a class already; leave out "
            "everything but claim"
        ),
    ),
    "checkpoints: an unknown mode": (
        "config:\n  kubernetes:\n    checkpoints: {access_mode: RWX}\nrun: train\n",
        (
            'task.yaml:3: config.kubernetes.checkpoints.access_mode: "RWX" is not one of ReadWriteOnce, ReadWriteMany, '
            "ReadWriteOncePod"
        ),
    ),
    "config: no number of seconds": (
        "config:\n  kubernetes:\n    provision_timeout: soon\nrun: train\n",
        (
            'task.yaml:3: config.kubernetes.provision_timeout: must be an integer, but is "soon"; write for '
            "example 600 (seconds), or -1 to wait for ever"
        ),
    ),
}

VARIABLES_AND_FILES: Final = {
    "a variable with a dash": (
        "envs:\n  MY-NAME: 1\nrun: train\n",
        (
            'task.yaml:2: envs.MY-NAME: "MY-NAME" is not the name of a variable; use letters, digits and `_`, such as '
            "MY_NAME"
        ),
    ),
    "a variable that begins with a digit": (
        "envs:\n  1ST: 1\nrun: train\n",
        ('task.yaml:2: envs[1ST]: "1ST" is not the name of a variable; use letters, digits and `_`, such as MY_NAME'),
    ),
    "a list as variable": (
        "envs:\n  A: [1]\nrun: train\n",
        "task.yaml:2: envs.A: must be text, but is a list; quote it to pass it as it is",
    ),
    "a list of variables": (
        "envs: [A]\nrun: train\n",
        "task.yaml:1: envs: must be a map, but is a list; write for example {EPOCHS: 10}",
    ),
    "a variable without a value": (
        "envs:\n  A: 1\n  B:\nrun: train\n",
        "task.yaml:3: envs.B: B has no value; pass --env B=…, or --env NAME for what it is where you call",
    ),
    "two variables without a value": (
        "envs:\n  A:\n  B:\nrun: train\n",
        (
            "task.yaml:2: envs.A: A, B have no value; pass --env A=… --env B=…, or --env NAME for what it is where "
            "you call"
        ),
    ),
    "a secret without a value": (
        "secrets:\n  TOKEN:\nrun: train\n",
        (
            "task.yaml:2: secrets.TOKEN: TOKEN has no value; pass --secret TOKEN=…, or --secret NAME for what it is "
            "where you call"
        ),
    ),
    "a secret that is only named": (
        "secrets: [TOKEN]\nrun: train\n",
        (
            "task.yaml:1: secrets.TOKEN: TOKEN has no value; pass --secret TOKEN=…, or --secret NAME for what it is "
            "where you call"
        ),
    ),
    "a map as secret": (
        "secrets:\n  TOKEN: {a: hunter2}\nrun: train\n",
        "task.yaml:2: secrets.TOKEN: must be text, but is a map; write null to give it with --secret TOKEN=…",
    ),
    "a variable that is a secret too": (
        "envs: {A: 1}\nsecrets: {A: hunter2}\nrun: train\n",
        "task.yaml:2: secrets.A: is among the envs too; remove it there",
    ),
    "a secret with a dash": (
        "secrets:\n  MY-TOKEN: hunter2\nrun: train\n",
        (
            'task.yaml:2: secrets.MY-TOKEN: "MY-TOKEN" is not the name of a variable; use letters, digits and `_`, '
            "such as MY_TOKEN"
        ),
    ),
    "a bucket as workdir": (
        "workdir: s3://bucket/code\nrun: train\n",
        (
            'task.yaml:1: workdir: "s3://bucket/code" is not on this machine, and buckets cannot be mounted here; '
            "download it, and name the local directory"
        ),
    ),
    "a repository as workdir": (
        "workdir:\n  url: https://example.com/code.git\nrun: train\n",
        "task.yaml:1: workdir: a git repository cannot be a workdir here; clone it and name the local directory",
    ),
    "a workdir by a variable that is not there": (
        "workdir: $CODE/src\nrun: train\n",
        "task.yaml:1: workdir: $CODE is none of the task's envs; add it there, or pass --env CODE=…",
    ),
    "an empty workdir": (
        'workdir: ""\nrun: train\n',
        'task.yaml:1: workdir: is empty; write "." for the current directory, or leave it out',
    ),
    "an absolute destination": (
        "file_mounts:\n  /data/images: ./images\nrun: train\n",
        (
            'task.yaml:2: file_mounts[/data/images]: "/data/images" is an absolute path, and jobs share the files of '
            "this machine; write images (below the working directory) or ~/images"
        ),
    ),
    "a bucket as file mount": (
        "file_mounts:\n  data: s3://bucket/data\nrun: train\n",
        (
            'task.yaml:2: file_mounts.data: "s3://bucket/data" is not on this machine, and buckets cannot be mounted '
            "here; download it, and name the local path"
        ),
    ),
    "a bucket with options": (
        "file_mounts:\n  data:\n    source: s3://bucket/data\n    mode: MOUNT\nrun: train\n",
        "task.yaml:2: file_mounts.data: a bucket cannot be mounted here; download it, and name the local path",
    ),
    "a destination outside": (
        "file_mounts:\n  ../data: ./data\nrun: train\n",
        (
            'task.yaml:2: file_mounts[../data]: "../data" leads out of the job\'s own directory; write a path without '
            "`..`"
        ),
    ),
    "the home of somebody": (
        "file_mounts:\n  ~root/data: ./data\nrun: train\n",
        'task.yaml:2: file_mounts[~root/data]: "~root/data" is no directory of the job; write ~/root/data',
    ),
    "a list of file mounts": (
        "file_mounts: [data]\nrun: train\n",
        "task.yaml:1: file_mounts: must be a map, but is a list; write for example {data: ./data}",
    ),
    "one destination twice": (
        "file_mounts:\n  data: ./a\n  ./data/: ./b\nrun: train\n",
        'task.yaml:3: file_mounts[./data/]: two mounts have the destination "data"; remove one of them',
    ),
    "a file mount from nowhere": (
        "file_mounts:\n  data:\nrun: train\n",
        "task.yaml:2: file_mounts.data: must be text, but is nothing; write for example ./data",
    ),
    "all of the home directory": (
        "file_mounts:\n  ~/: ./data\nrun: train\n",
        'task.yaml:2: file_mounts[~/]: "~/" names no file or directory; write for example data or ~/data',
    ),
}

BAD_FILES: Final[dict[str, tuple[str | bytes, str]]] = {
    **NO_TEXT_AT_ALL,
    **YAML,
    **FIELDS,
    **RESOURCES,
    **VARIABLES_AND_FILES,
}
