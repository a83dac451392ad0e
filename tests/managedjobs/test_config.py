"""The configuration: what each layer may say, and which layer wins."""

import pytest

from fairway.managedjobs import config
from fairway.managedjobs.configured import LaunchConfig, RunnerConfig
from fairway.managedjobs.tasks.errors import TaskError

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"


def test_the_configuration_of_the_guides() -> None:
    text = """
kubernetes:
  provision_timeout: -1  # Wait indefinitely in the queue to get scheduled on the k8s cluster
  remote_identity: SERVICE_ACCOUNT
  pod_config:
    metadata:
      labels:
        kueue.x-k8s.io/queue-name: user-queue
"""
    assert config.parse(text, "config.yaml") == LaunchConfig(provision_timeout_seconds=-1, queue="user-queue")


def test_everything_that_can_be_said() -> None:
    text = """
kubernetes:
  provision_timeout: 600
  remote_identity: trainer
  namespace: other
  allowed_contexts: [lab, cluster]
  kubeconfig: ~/other
  kueue: {local_queue_name: other}
  pod_config:
    metadata: {labels: {team: a, kueue.x-k8s.io/priority-class: low}}
    spec: {priorityClassName: x}
jobs:
  queue: user-queue
  priority: 100
  aging: {step: 5, cap: 50}
server:
  kubeconfig: ~/.kube/config
  context: lab
  namespace: research
"""
    assert config.parse(text, "config.yaml") == LaunchConfig(
        queue="user-queue",
        priority=100,
        aging_step=5,
        aging_cap=50,
        pod_config={"metadata": {"labels": {"team": "a"}}, "spec": {"priorityClassName": "x"}},
        provision_timeout_seconds=600,
        service_account="trainer",
        allowed_contexts=("lab", "cluster"),
        other_servers="~/other",
        namespace="research",
        kubeconfig="~/.kube/config",
        context="lab",
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "jobs:\n", "jobs: {}\nkubernetes:\n"])
def test_nothing_need_be_said(text: str) -> None:
    assert config.parse(text, "config.yaml") == LaunchConfig()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("kubernetes: {quota: {queue: a}, kueue: {local_queue_name: b}}", LaunchConfig(queue="a")),
        ("jobs: {priority: high-priority}", LaunchConfig(priority="high-priority")),
        ("jobs: {priority: '-7'}", LaunchConfig(priority=-7)),
        ("jobs: {aging: {step: 0}}", LaunchConfig(aging_step=0)),
        ("kubernetes: {allowed_contexts: all}", LaunchConfig(allowed_contexts=("*",))),
        (
            "kubernetes: {custom_metadata: {labels: {a: b}}}",
            LaunchConfig(pod_config={"metadata": {"labels": {"a": "b"}}}),
        ),
    ],
)
def test_other_ways_to_say_it(text: str, want: LaunchConfig) -> None:
    assert config.parse(text, "config.yaml") == want


def test_what_means_nothing_here_is_named_in_one_warning() -> None:
    text = """
api_server: {endpoint: http://example.com}
allowed_clouds: [aws]
jobs: {controller: {resources: {cpus: 4}}}
kubernetes:
  autoscaler: gke
  context_configs: {lab: {}}
  kueue: {admission_timeout: 5}
"""
    (warning,) = config.parse(text, "config.yaml").warnings

    assert warning == (
        "config.yaml: api_server (line 2), allowed_clouds (line 3), kubernetes.autoscaler (line 6), "
        "kubernetes.context_configs (line 7), kubernetes.kueue.admission_timeout (line 8), jobs.controller (line 4) "
        "mean nothing here and are left out"
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("kubernets: {}", "c.yaml:1: kubernets: there is no such field; did you mean kubernetes?"),
        ("queue: a", "c.yaml:1: queue: there is no such field; write it below `jobs:`"),
        ("pod_config: {}", "c.yaml:1: pod_config: there is no such field; write it below `kubernetes:`"),
        ("jobs:\n  prioriti: 5", "c.yaml:2: jobs.prioriti: there is no such field; did you mean priority?"),
        ("jobs:\n  aging: {stp: 5}", "c.yaml:2: jobs.aging.stp: there is no such field; did you mean step?"),
        ("jobs: 5", "c.yaml:1: jobs: must be a map, but is a number; write for example {queue: …}"),
        (
            "jobs: {aging: {step: -1}}",
            (
                "c.yaml:1: jobs.aging.step: must be from 0 to 1000000, but is -1; write for "
                "example 10, or 0 for no aging"
            ),
        ),
        (
            "jobs: {queue: My Queue}",
            (
                'c.yaml:1: jobs.queue: "My Queue" is not the name of a queue; use small letters, '
                "digits, `-` and `.`, such as user-queue"
            ),
        ),
        (
            "kubernetes:\n  provision_timeout: -2",
            (
                "c.yaml:2: kubernetes.provision_timeout: must be from -1 to 2147483647, "
                "but is -2; write for example 600 (seconds), or -1 to wait for ever"
            ),
        ),
        (
            "kubernetes: {allowed_contexts: lab}",
            (
                "c.yaml:1: kubernetes.allowed_contexts: must be a list of contexts of "
                "the kubeconfig, or all; write for example [lab]"
            ),
        ),
        (
            "kubernetes:\n  pod_config:\n    metadata:\n      name: x",
            (
                "c.yaml:4: kubernetes.pod_config.metadata.name: "
                "there is no such field; the fields here are annotations, labels"
            ),
        ),
        ("- a", "c.yaml:1: a configuration file is a map of fields, but this is a list"),
        (
            "a: 1\n---\nb: 2",
            ("c.yaml:3: a configuration file is one document; remove the second one, and the `---` above it"),
        ),
        (
            "jobs:\n\tqueue: a",
            ("c.yaml:2: a tab is used for indentation; YAML allows spaces only, so write spaces instead"),
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        config.parse(text, "c.yaml")

    assert str(refusal.value) == want


def test_the_environment() -> None:
    environ = {
        "FAIRWAY_QUEUE": "user-queue",
        "FAIRWAY_PRIORITY": "7",
        "FAIRWAY_NAMESPACE": "research",
        "FAIRWAY_CONTEXT": "",
        "FAIRWAY_PROVISION_TIMEOUT": "-1",
        "HOME": "/root",
    }

    assert config.from_environment(environ) == LaunchConfig(
        queue="user-queue", priority=7, namespace="research", provision_timeout_seconds=-1
    )


def test_a_wrong_variable_is_called_by_its_name() -> None:
    with pytest.raises(TaskError) as refusal:
        config.from_environment({"FAIRWAY_PRIORITY": "3000000000"})

    assert str(refusal.value) == (
        "FAIRWAY_PRIORITY: must be from -2147483648 to 2147483647, but is 3000000000; "
        "write for example 100 (higher goes first)"
    )


def test_settings_by_flag() -> None:
    settings = [
        "kubernetes.provision_timeout=600",
        f"kubernetes.pod_config.metadata.labels.{QUEUE}=user-queue",
        "kubernetes.pod_config.metadata.labels.example.com/team=a",
        "kubernetes.allowed_contexts=[lab, other]",
        "jobs.aging.step=0",
        "jobs.priority=high",
    ]

    assert config.from_settings(settings) == LaunchConfig(
        provision_timeout_seconds=600,
        queue="user-queue",
        pod_config={"metadata": {"labels": {"example.com/team": "a"}}},
        allowed_contexts=("lab", "other"),
        aging_step=0,
        priority="high",
    )


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        (["jobs.queue"], '--config: "jobs.queue" is not key=value; write for example kubernetes.provision_timeout=600'),
        (["=x"], '--config: "=x" is not key=value; write for example kubernetes.provision_timeout=600'),
        (["jobs.quue=a"], "--config jobs.quue: there is no such field; did you mean queue?"),
        (["jobs=a"], "--config jobs: must be a map, but is text; write for example {queue: …}"),
        (
            ["jobs=a", "jobs.queue=b"],
            ("--config jobs.queue: another --config gives this field a value, and fields below it cannot be set"),
        ),
        (
            ["jobs.aging={step"],
            ("--config jobs.aging: the `{` that is opened here is not closed where it should be; add a `}` or a comma"),
        ),
    ],
)
def test_a_wrong_setting_is_called_by_its_key(settings: list[str], want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        config.from_settings(settings)

    assert str(refusal.value) == want


def test_later_layers_win_and_parts_of_pods_are_laid_over_each_other() -> None:
    user = config.parse(
        """
jobs: {priority: 5}
kubernetes:
  provision_timeout: 600
  pod_config:
    metadata: {labels: {kueue.x-k8s.io/queue-name: a, team: a, tier: low}}
    spec:
      tolerations: [{key: gpu}]
      containers: [{env: [{name: A, value: "1"}, {name: B, value: "1"}]}]
""",
        "user",
    )
    project = config.parse(
        """
kubernetes:
  allowed_contexts: [lab]
  pod_config:
    metadata: {labels: {kueue.x-k8s.io/queue-name: b, team: b}}
    spec:
      tolerations: [{key: gpu}, {key: spot}]
      containers: [{env: [{name: B, value: "2"}]}]
""",
        "project",
    )
    environment = config.from_environment({"FAIRWAY_PRIORITY": "0"})
    flags = config.from_settings(
        ["kubernetes.provision_timeout=-1", f"kubernetes.pod_config.metadata.labels.{CLASS}=high"]
    )

    assert config.merge([user, project, environment]).priority == 0
    assert config.merge([user, project, environment, flags]) == LaunchConfig(
        queue="b",
        priority="high",
        provision_timeout_seconds=-1,
        allowed_contexts=("lab",),
        pod_config={
            "metadata": {"labels": {"team": "b", "tier": "low"}},
            "spec": {
                "tolerations": [{"key": "gpu"}, {"key": "spot"}],
                "containers": [{"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}],
            },
        },
    )


def test_layers_that_say_nothing_change_nothing() -> None:
    full = LaunchConfig(
        queue="a", priority=0, aging_step=0, pod_config={"spec": {}}, allowed_contexts=(), warnings=("w",)
    )

    assert config.merge([LaunchConfig(), full, LaunchConfig(), full]) == full
    assert config.merge([]) == LaunchConfig()


def test_what_is_said_about_the_runner() -> None:
    text = (
        "runner: {cpu: limit, memory: none, results: {max_age_days: 7, max_attempts: 1, max_count: 5, max_size: 1Gi}}"
    )
    assert config.parse(text, "config.yaml").runner == RunnerConfig(
        cpu="limit",
        memory="none",
        results_days=7,
        results_attempts=1,
        results_count=5,
        results_bytes=1 << 30,
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("runner: {cpu: hard}", "runner.cpu: 'hard' is not one of share, limit, none"),
        ("runner: {results: {max_size: much}}", "runner.results.max_size: 'much' is not an amount of bytes"),
        ("runner: {results: {max_days: 3}}", "max_days"),
        ("runner: {result: {}}", "results"),
    ],
)
def test_what_is_wrong_about_the_runner_is_named(text: str, want: str) -> None:
    with pytest.raises(TaskError) as wrong:
        config.parse(text, "config.yaml")
    assert want.replace("'", "") in str(wrong.value).replace("'", "").replace('"', "")
