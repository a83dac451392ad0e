"""`queueconfig`: guide 004's, what is wrong with others, and who wins."""

from typing import Any

import pytest
import yaml

from fairway.entrypoints import OWN
from fairway.errors import ValidationError
from fairway.schedulers.config import JobSettings, QueueConfig, read_queue_config
from fairway.schedulers.plugin import GangParameters

GUIDE = """\
queueconfig:
  scheduler: yunikorn
  jobs:
    - type: "ray"
      gangscheduling: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=hard"
      allow-preemption: false
    - type: "spark"
      gangscheduling: "placeholderTimeoutInSeconds=30 gangSchedulingStyle=hard"
      allow-preemption: true
"""


def read(value: Any) -> QueueConfig:
    return read_queue_config(value, OWN)


def test_the_configuration_of_the_guide() -> None:
    config = read(yaml.safe_load(GUIDE)["queueconfig"])
    assert config.settings("organization1", "ray") == JobSettings(
        scheduler="yunikorn",
        gang=True,
        gang_parameters=GangParameters(timeout_seconds=60, style="Hard"),
        allow_preemption=False,
    )
    spark = config.settings("organization1", "spark")
    assert (spark.allow_preemption, spark.gang_parameters) == (True, GangParameters(timeout_seconds=30, style="Hard"))
    assert config.settings("organization1", "default") == JobSettings(scheduler="yunikorn")
    assert config.job_type("organization1", ("ray",)) == "ray"
    assert config.job_type("organization1", ("pytorch", "kubeflow")) == "default"


def test_nothing_configured_is_no_scheduler() -> None:
    assert read(None).settings("a", "b").scheduler is None


def test_an_organization_is_before_all_and_a_type_before_the_rest() -> None:
    config = read(
        {
            "scheduler": "yunikorn",
            "allow-preemption": True,
            "jobs": [{"type": "ray", "scheduler": "kueue", "queue": "q"}],
            "organizations": [
                {"name": "ml", "scheduler": "fairway", "jobs": [{"type": "spark", "scheduler": "default"}]},
                {"name": "web", "jobs": [{"type": "kubeflow", "priority-class": "low"}]},
            ],
        }
    )
    found = {
        (organization, kind): config.settings(organization, kind).scheduler
        for organization in ("ml", "web", "other")
        for kind in ("ray", "spark", "default")
    }
    assert found == {
        ("ml", "ray"): "fairway",
        ("ml", "spark"): "default",
        ("ml", "default"): "fairway",
        ("web", "ray"): "kueue",
        ("web", "spark"): "yunikorn",
        ("web", "default"): "yunikorn",
        ("other", "ray"): "kueue",
        ("other", "spark"): "yunikorn",
        ("other", "default"): "yunikorn",
    }
    assert config.settings("ml", "ray").queue == "q", "field by field"
    assert config.settings("ml", "ray").allow_preemption is True
    assert config.job_type("web", ("pytorch", "kubeflow")) == "kubeflow"


WRONG = {
    "a scheduler that is not there": ({"scheduler": "volcano"}, "queueconfig.scheduler", "kueue"),
    "an unknown field": ({"schedulers": "kueue"}, "queueconfig.schedulers", "scheduler"),
    "an unknown field of a job": ({"jobs": [{"type": "ray", "gang": 1}]}, "queueconfig.jobs[0].gang", "gangscheduling"),
    "jobs as a mapping": ({"jobs": {"ray": {}}}, "queueconfig.jobs", "list"),
    "a job without a type": ({"jobs": [{}]}, "queueconfig.jobs[0].type", "Required"),
    "a type that cannot be a queue": ({"jobs": [{"type": "a.b"}]}, "queueconfig.jobs[0].type", "letters"),
    "a type twice": ({"jobs": [{"type": "a"}, {"type": "a"}]}, "queueconfig.jobs[1].type", "Duplicate"),
    "a timeout that is none": (
        {"gangscheduling": "placeholderTimeoutInSeconds=soon"},
        "queueconfig.gangscheduling",
        "'soon'",
    ),
    "a style that is none": ({"gangscheduling": "gangSchedulingStyle=firm"}, "queueconfig.gangscheduling", "'firm'"),
    "a parameter that is none": ({"gangscheduling": "timeout=3"}, "queueconfig.gangscheduling", "'timeout=3'"),
    "a parameter twice": (
        {"gangscheduling": "gangSchedulingStyle=Hard gangSchedulingStyle=Soft"},
        "queueconfig.gangscheduling",
        "twice",
    ),
    "gang scheduling as a number": ({"gangscheduling": 3}, "queueconfig.gangscheduling", "false"),
    "preemption as a word": ({"allow-preemption": "yes"}, "queueconfig.allow-preemption", "true or false"),
    "the user as a name": ({"user-info": "ana"}, "queueconfig.user-info", "true or false"),
    "a queue with spaces": ({"queue": "a b"}, "queueconfig.queue", "a b"),
    "a class that is none": ({"priority-class": 3}, "queueconfig.priority-class", "text"),
    "an organization without a name": ({"organizations": [{}]}, "queueconfig.organizations[0].name", "Required"),
    "a wrong field of an organization": (
        {"organizations": [{"name": "ml", "jobs": [{"type": "ray", "scheduler": "x"}]}]},
        "queueconfig.organizations[0].jobs[0].scheduler",
        "yunikorn",
    ),
    "an overhead that is no amount": (
        {"runtime-classes": {"kata": {"cpu": "much"}}},
        "queueconfig.runtime-classes.kata.cpu",
        "250m",
    ),
    "a text": ("yunikorn", "queueconfig", "mapping"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    value, path, words = WRONG[name]
    with pytest.raises(ValidationError) as refused:
        read(value)
    (error,) = refused.value.errors
    assert error.path == path
    assert words in str(error)


def test_everything_wrong_is_named_at_once() -> None:
    with pytest.raises(ValidationError) as refused:
        read({"scheduler": "x", "jobs": [{"type": "A"}], "queue": "?"})
    assert {error.path for error in refused.value.errors} == {
        "queueconfig.scheduler",
        "queueconfig.queue",
        "queueconfig.jobs[0].type",
    }
