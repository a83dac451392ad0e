"""What webhooks say of jobs, in Kueue's words."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError
from fairway.integrations import webhooks
from fairway.integrations.batch_job import BatchJob

from .stored import stored_job

JOBS = BatchJob()
QUEUE = "metadata.labels[kueue.x-k8s.io/queue-name]"
LIMIT = "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"
CLASS = "metadata.labels[kueue.x-k8s.io/priority-class]"
GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
MINIMUM = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"
EQUALITY = "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]"
TEMPLATE = "spec.template.metadata.annotations"


class Around:
    """Surroundings that are what the test says."""

    def __init__(self, *, default_queue: bool = False, owner_is_job: bool = False, **labels: str) -> None:
        self.configuration = Configuration()
        self._default_queue = default_queue
        self._owner_is_job = owner_is_job
        self._labels = {key.replace("__", "/"): value for key, value in labels.items()}

    def namespace_labels(self, _namespace: str) -> Mapping[str, str]:
        return self._labels

    def has_default_queue(self, _namespace: str) -> bool:
        return self._default_queue

    def owner_is_managed(self, _manifest: Manifest) -> bool:
        return False

    def owner_is_job(self, _manifest: Manifest) -> bool:
        return self._owner_is_job

    def manages(self, _manifest: Manifest, _framework: str) -> bool:
        return True


def labelled(**labels: str) -> Manifest:
    return stored_job(labels={f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()})


def annotated(**annotations: str) -> Manifest:
    return stored_job(annotations={f"kueue.x-k8s.io/{key.replace('_', '-')}": one for key, one in annotations.items()})


def partial(least: str, **spec: Any) -> Manifest:
    return stored_job(annotations={"kueue.x-k8s.io/job-min-parallelism": least}, **spec)


def equal(text: str, **spec: Any) -> Manifest:
    return stored_job(annotations={"kueue.x-k8s.io/job-completions-equal-parallelism": text}, **spec)


def near(**annotations: str) -> Manifest:
    found = {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": value for key, value in annotations.items()}
    return stored_job(parallelism=4, template={"metadata": {"annotations": found}})


def _texts(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(stored_job(), [], id="nothing wrong"),
        pytest.param(labelled(max_exec_time_seconds="5"), [], id="a time limit"),
        pytest.param(
            labelled(max_exec_time_seconds="0"),
            [f"{LIMIT}: Invalid value: 0: should be greater than 0"],
            id="a time limit of nothing",
        ),
        pytest.param(
            labelled(max_exec_time_seconds="a"),
            [f'{LIMIT}: Invalid value: "a": strconv.Atoi: parsing "a": invalid syntax'],
            id="no number",
        ),
        pytest.param(
            labelled(max_exec_time_seconds="9" * 20),
            [f'{LIMIT}: Invalid value: "{"9" * 20}": strconv.Atoi: parsing "{"9" * 20}": value out of range'],
            id="too large a number",
        ),
        pytest.param(annotated(admission_gated_by="a.io/b,c.io/d"), [], id="gates"),
        pytest.param(
            annotated(admission_gated_by="a.io/b,a.io/b"),
            [f'{GATES}: Invalid value: "a.io/b,a.io/b": duplicate gate name: a.io/b'],
            id="a gate twice",
        ),
        pytest.param(annotated(elastic_job="true"), [], id="elastic jobs"),
        pytest.param(partial("2", parallelism=3), [], id="fewer pods"),
        pytest.param(
            partial("3", parallelism=3),
            [f"{MINIMUM}: Invalid value: 3: should be between 0 and 2"],
            id="not fewer pods",
        ),
        pytest.param(
            partial("0", parallelism=3), [f"{MINIMUM}: Invalid value: 0: should be between 0 and 2"], id="no pods"
        ),
        pytest.param(
            partial("x"),
            [f'{MINIMUM}: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax'],
            id="no number of pods",
        ),
        pytest.param(
            equal("true", completionMode="Indexed", parallelism=2, completions=2), [], id="completions follow"
        ),
        pytest.param(equal("false"), [], id="completions need not follow"),
        pytest.param(
            equal("perhaps"),
            [f'{EQUALITY}: Invalid value: "perhaps": strconv.ParseBool: parsing "perhaps": invalid syntax'],
            id="no truth value",
        ),
        pytest.param(
            equal("true", parallelism=2, completions=3),
            [
                f'{EQUALITY}: Invalid value: "true": should not be enabled for NonIndexed jobs',
                (
                    "spec.completions: Invalid value: 3: should be equal to parallelism when "
                    "kueue.x-k8s.io/job-completions-equal-parallelism annotation is true"
                ),
            ],
            id="completions that cannot follow",
        ),
        pytest.param(near(required_topology="rack", slice_required_topology="host", slice_size="2"), [], id="nearness"),
        pytest.param(
            near(required_topology="rack", preferred_topology="zone"),
            [
                (
                    f"{TEMPLATE}: Invalid value: null: must not contain more than one topology annotation: "
                    '["kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology", '
                    '"kueue.x-k8s.io/podset-unconstrained-topology"]'
                )
            ],
            id="two wishes",
        ),
        pytest.param(
            near(unconstrained_topology="maybe"),
            [
                (
                    f'{TEMPLATE}[kueue.x-k8s.io/podset-unconstrained-topology]: Invalid value: "maybe": must be a '
                    "boolean value"
                )
            ],
            id="no truth value for nearness",
        ),
        pytest.param(
            near(slice_required_topology="host"),
            [
                (
                    f"{TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Required value: must be set when "
                    "'kueue.x-k8s.io/podset-slice-required-topology' is specified"
                )
            ],
            id="slices without a size",
        ),
        pytest.param(
            near(slice_size="x"),
            [
                f'{TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Invalid value: "x": must be a numeric value',
                (
                    f"{TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Forbidden: may not be set when "
                    "'kueue.x-k8s.io/podset-slice-required-topology' is not specified"
                ),
            ],
            id="a size without slices",
        ),
        pytest.param(
            near(slice_required_topology="host", slice_size="5"),
            [
                (
                    f'{TEMPLATE}[kueue.x-k8s.io/podset-slice-size]: Invalid value: "5": must not be greater than pod '
                    "set count 4"
                )
            ],
            id="slices larger than the whole",
        ),
        pytest.param(
            near(group_name="7"),
            [
                f'{TEMPLATE}[kueue.x-k8s.io/podset-group-name]: Invalid value: "7": must not be a number',
                (
                    f"{TEMPLATE}[kueue.x-k8s.io/podset-group-name]: Forbidden: may not be set when neither "
                    "'kueue.x-k8s.io/podset-preferred-topology' nor 'kueue.x-k8s.io/podset-required-topology' is "
                    "specified"
                ),
            ],
            id="a group of nothing",
        ),
    ],
)
def test_new_jobs(job: Manifest, want: list[str]) -> None:
    assert _texts([*webhooks.wrong_on_create(job), *JOBS.wrong_on_create(job)]) == want


@pytest.mark.parametrize("key", ["queue-name", "prebuilt-workload-name"])
def test_names_must_be_names(key: str) -> None:
    [error] = webhooks.wrong_on_create(stored_job(labels={f"kueue.x-k8s.io/{key}": "A_B"}))

    assert error.path == f"metadata.labels[kueue.x-k8s.io/{key}]"
    assert error.message.startswith("a lowercase RFC 1123 subdomain must consist of")


def queued(name: str | None, *, suspend: bool, **labels: str) -> Manifest:
    job = stored_job(
        suspend=suspend, labels={f"kueue.x-k8s.io/{key.replace('_', '-')}": one for key, one in labels.items()}
    )
    if name is None:
        del job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    else:
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = name
    return job


def gated(text: str) -> Manifest:
    return stored_job(annotations={"kueue.x-k8s.io/admission-gated-by": text})


IMMUTABLE = "field is immutable"
PARTIAL_ON: dict[str, Any] = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}, "suspend": False}
EQUAL_ON: dict[str, Any] = {"completionMode": "Indexed", "parallelism": 2, "completions": 2}


@pytest.mark.parametrize(
    ("old", "new", "around", "want"),
    [
        pytest.param(
            queued("a", suspend=True), queued("b", suspend=True), Around(), [], id="another queue while suspended"
        ),
        pytest.param(
            queued("a", suspend=False),
            queued("b", suspend=False),
            Around(),
            [f'{QUEUE}: Invalid value: "b": {IMMUTABLE}'],
            id="another queue while running",
        ),
        pytest.param(
            queued("a", suspend=True),
            queued("b", suspend=False),
            Around(),
            [f'{QUEUE}: Invalid value: "b": {IMMUTABLE}'],
            id="another queue and a start",
        ),
        pytest.param(
            queued(None, suspend=False),
            queued("b", suspend=False),
            Around(),
            [f'{QUEUE}: Invalid value: "b": {IMMUTABLE}'],
            id="a queue for a running job",
        ),
        pytest.param(queued("a", suspend=True), queued(None, suspend=True), Around(), [], id="no queue any more"),
        pytest.param(
            queued("a", suspend=True),
            queued(None, suspend=True),
            Around(default_queue=True),
            [f'{QUEUE}: Invalid value: "": queue-name must not be empty in namespace with default queue'],
            id="no queue any more where there is a default",
        ),
        pytest.param(
            queued("a", suspend=True, priority_class="x"),
            queued("a", suspend=True, priority_class="y"),
            Around(),
            [],
            id="another class",
        ),
        pytest.param(
            queued("a", suspend=False, priority_class="x"),
            queued("a", suspend=False, priority_class="y"),
            Around(),
            [],
            id="another class while running",
        ),
        pytest.param(
            queued("a", suspend=True),
            queued("a", suspend=True, priority_class="y"),
            Around(),
            [],
            id="a class while suspended",
        ),
        pytest.param(
            queued("a", suspend=False),
            queued("a", suspend=False, priority_class="y"),
            Around(),
            [f'{CLASS}: Invalid value: "y": WorkloadPriorityClass cannot be added to a non-suspended workload'],
            id="a class while running",
        ),
        pytest.param(
            queued("a", suspend=True, priority_class="x"),
            queued("a", suspend=True),
            Around(),
            [f'{CLASS}: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload'],
            id="no class any more",
        ),
        pytest.param(
            queued("a", suspend=True),
            queued("a", suspend=True, max_exec_time_seconds="5"),
            Around(),
            [],
            id="a time limit while suspended",
        ),
        pytest.param(
            queued("a", suspend=True),
            queued("a", suspend=False, max_exec_time_seconds="5"),
            Around(),
            [f'{LIMIT}: Invalid value: "5": {IMMUTABLE}'],
            id="a time limit with the start",
        ),
        pytest.param(
            queued("a", suspend=True, prebuilt_workload_name="x"),
            queued("a", suspend=True, prebuilt_workload_name="y"),
            Around(),
            [],
            id="another workload while suspended",
        ),
        pytest.param(
            queued("a", suspend=False, prebuilt_workload_name="x"),
            queued("a", suspend=False, prebuilt_workload_name="y"),
            Around(),
            ['metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "y": field is immutable'],
            id="another workload while running",
        ),
        pytest.param(gated("a.io/b,c.io/d"), gated("c.io/d"), Around(), [], id="one gate less"),
        pytest.param(gated("a.io/b"), gated(""), Around(), [], id="no gate any more"),
        pytest.param(
            gated(""),
            gated("a.io/b"),
            Around(),
            [f"{GATES}: Forbidden: cannot add admission gate after creation"],
            id="a gate too late",
        ),
        pytest.param(
            gated("a.io/b"),
            gated("c.io/d"),
            Around(),
            [f"{GATES}: Forbidden: can only remove gates, not add new ones"],
            id="another gate",
        ),
        pytest.param(
            stored_job(parallelism=3, **PARTIAL_ON),
            stored_job(parallelism=4, **PARTIAL_ON),
            Around(),
            [
                (
                    "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not "
                    "suspended"
                )
            ],
            id="other parallelism while running",
        ),
        pytest.param(
            stored_job(parallelism=3, **{**PARTIAL_ON, "suspend": True}),
            stored_job(parallelism=4, **{**PARTIAL_ON, "suspend": True}),
            Around(),
            [],
            id="other parallelism while suspended",
        ),
        pytest.param(
            partial("1", parallelism=3),
            partial("3", parallelism=3),
            Around(),
            [f"{MINIMUM}: Invalid value: 3: should be between 0 and 2"],
            id="another least number of pods",
        ),
        pytest.param(
            partial("3", parallelism=3),
            partial("3", parallelism=3, suspend=False),
            Around(),
            [],
            id="a least number that was taken before",
        ),
        pytest.param(
            equal("false", **EQUAL_ON),
            equal("true", **EQUAL_ON),
            Around(),
            [f"{EQUALITY}: Forbidden: field is immutable while the job is not suspended"],
            id="completions follow from now on",
        ),
    ],
)
def test_changed_jobs(old: Manifest, new: Manifest, around: Around, want: list[str]) -> None:
    errors = webhooks.wrong_on_update(
        old, new, around, was_suspended=JOBS.is_suspended(old), is_suspended=JOBS.is_suspended(new)
    )

    assert _texts([*errors, *JOBS.wrong_on_update(old, new)]) == want


@pytest.mark.parametrize(
    ("name", "around", "want"),
    [
        pytest.param(None, Around(default_queue=True), "default", id="gets the default queue"),
        pytest.param(None, Around(), "", id="there is none"),
        pytest.param("mine", Around(default_queue=True), "mine", id="names one"),
        pytest.param(None, Around(default_queue=True, owner_is_job=True), "", id="belongs to a job"),
        pytest.param(None, Around(default_queue=True, kubernetes__io="x"), "default", id="in a namespace with labels"),
    ],
)
def test_the_default_queue(name: str | None, around: Around, want: str) -> None:
    job = queued(name, suspend=False)
    webhooks.apply_default_queue(job, around)

    assert webhooks.queue_name(job) == want


def test_no_default_queue_outside_the_namespaces_of_the_queue() -> None:
    around = Around(default_queue=True)
    around._labels = {"kubernetes.io/metadata.name": "kube-system"}
    job = queued(None, suspend=False)
    webhooks.apply_default_queue(job, around)

    assert webhooks.queue_name(job) == ""


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({}, {}, "", id="none"),
        pytest.param({"kueue.x-k8s.io/prebuilt-workload-name": "a"}, {}, "a", id="by label"),
        pytest.param(
            {"kueue.x-k8s.io/prebuilt-workload-name": "a"},
            {"kueue.x-k8s.io/prebuilt-workload-name": "b"},
            "b",
            id="by annotation",
        ),
    ],
)
def test_a_workload_made_beforehand(labels: dict[str, str], annotations: dict[str, str], want: str) -> None:
    assert webhooks.prebuilt_workload(stored_job(labels=labels, annotations=annotations)) == want


@pytest.mark.parametrize(
    ("text", "want"), [("5", 5), ("+5", 5), ("0", None), ("-1", None), ("x", None), (str(2**31), None)]
)
def test_time_limits(text: str, want: int | None) -> None:
    assert webhooks.maximum_seconds(labelled(max_exec_time_seconds=text)) == want


_KEYS = st.sampled_from(
    ["other", *(f"kueue.x-k8s.io/{name}" for name in ("queue-name", "priority-class", "prebuilt-workload-name",
        "max-exec-time-seconds", "elastic-job", "admission-gated-by"))]
)  # fmt: skip
_TEXTS = st.dictionaries(_KEYS, st.sampled_from(["", "a", "B!", "0", "7", "true", "a.b/c"]), max_size=3)
_UNASKED: dict[str, str] = {"kueue.x-k8s.io/elastic-job": "no"}
"""Wrong in nobody's eyes, and enough for everything to be asked."""


@given(labels=_TEXTS, annotations=_TEXTS)
def test_what_is_not_there_need_not_be_asked_about(labels: dict[str, str], annotations: dict[str, str]) -> None:
    job, asked = stored_job(), stored_job()
    job["metadata"] |= {"labels": labels, "annotations": annotations}
    asked["metadata"] |= {"labels": labels, "annotations": _UNASKED | annotations}

    assert webhooks.wrong_on_create(job) == webhooks.wrong_on_create(asked)


@pytest.mark.parametrize("suspended", [(False, False), (False, True), (True, False), (True, True)])
@given(labels=_TEXTS, annotations=_TEXTS)
def test_what_did_not_change_need_not_be_compared(
    suspended: tuple[bool, bool], labels: dict[str, str], annotations: dict[str, str]
) -> None:
    was_suspended, is_suspended = suspended
    old, new, changed = stored_job(), stored_job(parallelism=2), stored_job()
    for one in (old, new, changed):
        one["metadata"] |= {"labels": labels, "annotations": annotations}
    changed["metadata"]["labels"] = {**labels, "unheard-of": "x"}

    def wrong(after: Manifest) -> list[FieldError]:
        around = Around(default_queue=True)
        return webhooks.wrong_on_update(old, after, around, was_suspended=was_suspended, is_suspended=is_suspended)

    assert wrong(new) == wrong(changed)


@pytest.mark.parametrize("asked", [{}, {"kueue.x-k8s.io/podset-required-topology": "Not A Key!"}])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_without_annotations_is_told_what_one_with_others_is(asked: dict[str, str], parallelism: int) -> None:
    template = {"metadata": {"annotations": asked}}
    old, new = stored_job(template=template), stored_job(template=template, parallelism=parallelism, suspend=True)
    plain = JOBS.wrong_on_update(old, new)
    for one in (old, new):
        one["metadata"]["annotations"] = {"unheard-of": "x"}

    assert plain == JOBS.wrong_on_update(old, new)
    assert bool(plain) is bool(asked)
