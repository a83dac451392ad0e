"""What `inspect` finds, removes and fills in. The rules of the kinds are tested with the kinds."""

from typing import Any

import pytest

from fairway.apis.machinery.schemas import walk
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import DEEPEST, Findings, inspect
from fairway.errors import FieldError

POD = definition("io.k8s.api.core.v1.Pod")
JOB = definition("io.k8s.api.batch.v1.Job")
WORKLOAD = definition("io.x-k8s.kueue.v1beta2.Workload")
CLUSTER_QUEUE = definition("io.x-k8s.kueue.v1beta2.ClusterQueue")
RAY_CLUSTER = definition("io.ray.v1.RayCluster")
MANAGED_JOB = definition("dev.fairway.v1alpha1.ManagedJob")


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "x", **container}]}}


def quota(value: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": value}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    return {"metadata": {"name": "q"}, "spec": {"resourceGroups": [group]}}


def pod_sets(*sets: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"podSets": [{"template": {"spec": {"containers": []}}, **one} for one in sets]}}


def shown(errors: list[FieldError]) -> list[tuple[str, str]]:
    return [(error.path, error.rule.removeprefix("FieldValue")) for error in errors]


@pytest.mark.parametrize(
    ("schema", "manifest", "want"),
    [
        pytest.param(POD, [], [("", "TypeInvalid")], id="not an object at all"),
        pytest.param(POD, {"spec": "x"}, [("spec", "TypeInvalid")], id="text for an object"),
        pytest.param(
            POD, {"spec": {"containers": {}}}, [("spec.containers", "TypeInvalid")], id="an object for a list"
        ),
        pytest.param(POD, {"metadata": {"name": 5}}, [("metadata.name", "TypeInvalid")], id="a number for text"),
        pytest.param(
            POD, {"metadata": {"labels": {"a": 1}}}, [("metadata.labels[a]", "TypeInvalid")], id="a number for a label"
        ),
        pytest.param(
            POD,
            {"metadata": {"labels": {1: "a"}}},
            [("metadata.labels", "TypeInvalid")],
            id="a label whose key is a number",
        ),
        pytest.param(POD, {True: 1}, [("", "TypeInvalid")], id="a field whose name is no string"),
        pytest.param(POD, pod(args=["a", 1]), [("spec.containers[0].args[1]", "TypeInvalid")], id="a number in a list"),
        pytest.param(POD, pod(tty="yes"), [("spec.containers[0].tty", "TypeInvalid")], id="text for yes or no"),
        pytest.param(POD, {"spec": {}}, [("spec.containers", "Required")], id="a list that must be there"),
        pytest.param(
            POD,
            pod(env=[{"value": "1"}, {"name": ""}]),
            [("spec.containers[0].env[0].name", "Required"), ("spec.containers[0].env[1].name", "Required")],
            id="an empty name is none",
        ),
        pytest.param(
            POD,
            {"spec": {"containers": [None]}},
            [("spec.containers[0].name", "Required")],
            id="a null in a list is an empty object",
        ),
        pytest.param(
            POD,
            pod(imagePullPolicy="Sometimes"),
            [("spec.containers[0].imagePullPolicy", "NotSupported")],
            id="not one of the choices",
        ),
        pytest.param(
            JOB,
            {"spec": {"template": {}, "parallelism": 2.0}},
            [("spec.parallelism", "TypeInvalid")],
            id="2.0 is no int32",
        ),
        pytest.param(
            JOB,
            {"spec": {"template": {}, "parallelism": 2**31}},
            [("spec.parallelism", "TypeInvalid")],
            id="beyond int32",
        ),
        pytest.param(
            JOB,
            {"spec": {"template": {}, "parallelism": True}},
            [("spec.parallelism", "TypeInvalid")],
            id="true is no number",
        ),
        pytest.param(
            POD,
            pod(resources={"limits": {"cpu": "lots", "memory": True}}),
            [
                ("spec.containers[0].resources.limits[cpu]", "Invalid"),
                ("spec.containers[0].resources.limits[memory]", "TypeInvalid"),
            ],
            id="no quantities",
        ),
        pytest.param(
            POD,
            pod(livenessProbe={"httpGet": {"port": 1.5}}),
            [("spec.containers[0].livenessProbe.httpGet.port", "TypeInvalid")],
            id="neither a number nor a name of a port",
        ),
        pytest.param(
            POD,
            {"status": {"startTime": "yesterday"}},
            [("status.startTime", "Invalid")],
            id="no time",
        ),
        pytest.param(
            definition("io.k8s.api.core.v1.Secret"), {"data": {"a": "%"}}, [("data[a]", "Invalid")], id="no base64"
        ),
        pytest.param(WORKLOAD, pod_sets(), [("spec.podSets", "Invalid")], id="too few"),
        pytest.param(
            WORKLOAD,
            pod_sets(*({"name": f"n{one}"} for one in range(19))),
            [("spec.podSets", "TooMany")],
            id="too many",
        ),
        pytest.param(WORKLOAD, pod_sets({"count": -1}), [("spec.podSets[0].count", "Invalid")], id="too small"),
        pytest.param(
            WORKLOAD, pod_sets({"count": "1"}), [("spec.podSets[0].count", "TypeInvalid")], id="text for a number"
        ),
        pytest.param(
            WORKLOAD, pod_sets({"name": "N"}), [("spec.podSets[0].name", "Invalid")], id="outside the pattern"
        ),
        pytest.param(
            WORKLOAD, pod_sets({"name": "n\n"}), [("spec.podSets[0].name", "Invalid")], id="a newline at the end"
        ),
        pytest.param(WORKLOAD, pod_sets({"name": "n" * 64}), [("spec.podSets[0].name", "TooLong")], id="too long"),
        pytest.param(WORKLOAD, pod_sets({}, {}), [("spec.podSets[1]", "Duplicate")], id="the same key twice"),
        pytest.param(
            WORKLOAD,
            {"spec": {"podSets": [None]}},
            [("spec.podSets[0]", "TypeInvalid")],
            id="a null in a custom kind's list",
        ),
        pytest.param(
            CLUSTER_QUEUE,
            quota(1.5),
            [("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota", "TypeInvalid")],
            id="a fraction for a number or text",
        ),
        pytest.param(
            CLUSTER_QUEUE,
            quota("lots"),
            [("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota", "Invalid")],
            id="text that is no quantity",
        ),
    ],
)
def test_what_is_wrong(schema: Schema, manifest: Any, want: list[tuple[str, str]]) -> None:
    findings = inspect(schema, manifest)

    assert shown(findings.errors) == want
    assert findings.unknown == []


def test_an_error_says_what_was_found_and_what_is_wanted() -> None:
    findings = inspect(WORKLOAD, pod_sets({"count": -1, "name": 5}))

    assert {str(error) for error in findings.errors} == {
        "spec.podSets[0].count: Invalid value: -1: spec.podSets[0].count in body should be greater than or equal to 0",
        "spec.podSets[0].name: Invalid value: 5: must be of type string",
    }


def test_a_secret_is_not_quoted_back() -> None:
    findings = inspect(definition("io.k8s.api.core.v1.Secret"), {"data": {"password": "not base64: hunter2"}})

    assert "hunter2" not in str(findings.errors[0])


@pytest.mark.parametrize(
    ("schema", "manifest", "want_unknown", "want"),
    [
        pytest.param(POD, {"foo": 1}, ["foo"], {}, id="at the top"),
        pytest.param(POD, pod(foo={"a": 1}), ["spec.containers[0].foo"], pod(), id="in a list"),
        pytest.param(
            WORKLOAD,
            {"status": {"foo": 1, "bar": None}},
            ["status.foo", "status.bar"],
            {"status": {}},
            id="in a custom kind",
        ),
        pytest.param(
            MANAGED_JOB,
            {"spec": {"tasks": [{"foo": {"bar": [1]}}]}},
            [],
            {"spec": {"tasks": [{"foo": {"bar": [1]}}]}},
            id="kept in an open part",
        ),
        pytest.param(
            MANAGED_JOB,
            {"status": {"recoveries": 1, "foo": 1}, "extra": 1},
            ["extra"],
            {"status": {"recoveries": 1, "foo": 1}},
            id="removed beside an open part",
        ),
    ],
)
def test_unknown_fields(schema: Schema, manifest: Any, want_unknown: list[str], want: Any) -> None:
    findings = inspect(schema, manifest)

    assert findings == Findings(errors=[], unknown=want_unknown)
    assert manifest == want


@pytest.mark.parametrize(
    ("schema", "manifest", "want"),
    [
        pytest.param(POD, {"metadata": None, "spec": None}, {}, id="a null is removed"),
        pytest.param(
            POD, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}, id="a null label is empty"
        ),
        pytest.param(POD, pod(args=[None]), pod(args=[""]), id="a null argument is empty"),
        pytest.param(POD, pod(imagePullPolicy=""), pod(), id="an empty choice is none"),
        pytest.param(
            POD,
            pod(ports=[{"containerPort": 80}, {"containerPort": 81, "protocol": None}]),
            pod(ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}]),
            id="a default stands where nothing or a null was",
        ),
        pytest.param(
            POD,
            {"status": {"containerStatuses": [{"name": "main"}]}},
            {
                "status": {
                    "containerStatuses": [
                        {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
                    ]
                }
            },
            id="status is filled with zero values",
        ),
        pytest.param(
            POD,
            pod(resources={"requests": {"cpu": 0.5, "memory": "1024Mi", "gpu": 1, "x": "2"}}),
            pod(resources={"requests": {"cpu": "500m", "memory": "1Gi", "gpu": "1", "x": "2"}}),
            id="quantities are spelled in one way",
        ),
        pytest.param(
            POD,
            {"status": {"startTime": "2026-01-31T13:00:00.75+01:00"}},
            {"status": {"startTime": "2026-01-31T12:00:00Z"}},
            id="times are kept in UTC",
        ),
        pytest.param(
            WORKLOAD,
            {"spec": {"priority": 5.0}},
            {"spec": {"active": True, "priority": 5}},
            id="5.0 is 5 in a custom kind",
        ),
        pytest.param(
            WORKLOAD, {"spec": {"priority": None}}, {"spec": {"active": True}}, id="a null of a custom kind is removed"
        ),
        pytest.param(
            RAY_CLUSTER,
            {"status": {"lastUpdateTime": None}},
            {"status": {"lastUpdateTime": None}},
            id="a null that may stay",
        ),
    ],
)
def test_what_is_kept(schema: Schema, manifest: Any, want: Any) -> None:
    findings = inspect(schema, manifest)

    assert findings == Findings()
    assert manifest == want


def test_a_custom_kind_keeps_quantities_as_they_are_written() -> None:
    for written in (2, "2000m"):
        manifest = quota(written)

        assert inspect(CLUSTER_QUEUE, manifest) == Findings()
        assert manifest["spec"]["resourceGroups"] == quota(written)["spec"]["resourceGroups"]


def test_defaults_of_a_default_are_filled_in_and_never_shared() -> None:
    inner = Schema(type="object", properties={"size": Schema(type="integer", default=3), "tags": Schema(type="array")})
    inner.properties["tags"].default = ["a"]
    inner.default = {}
    schema = Schema(type="object", properties={"part": inner})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    inspect(schema, first)
    first["part"]["tags"].append("mine")
    inspect(schema, second)

    assert second == {"part": {"size": 3, "tags": ["a"]}}


def test_a_default_is_enough_for_a_required_field() -> None:
    schema = Schema(type="object", properties={"mode": Schema(type="string", default="x")}, required=("mode",))
    manifest: dict[str, Any] = {"mode": None}

    assert inspect(schema, manifest) == Findings()
    assert manifest == {"mode": "x"}


def test_one_part_of_a_manifest_by_its_path() -> None:
    status = {"conditions": [{"type": "Admitted", "foo": 1}], "bar": 2}
    findings = inspect(WORKLOAD.properties["status"], status, "status")

    assert findings.unknown == ["status.conditions[0].foo", "status.bar"]
    assert {error.path for error in findings.errors} == {
        f"status.conditions[0].{name}" for name in ("lastTransitionTime", "message", "reason", "status")
    }


def nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def a_task(task: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"tasks": [task]}}


def test_open_parts_have_a_bottom() -> None:
    assert inspect(MANAGED_JOB, a_task({"deep": nested(DEEPEST - 1)})) == Findings()

    for depth in (DEEPEST, 100_000):
        errors = inspect(MANAGED_JOB, a_task({"deep": nested(depth)})).errors
        assert shown(errors) == [("spec.tasks[0]", "Invalid")]
        assert "nested too deeply" in str(errors[0])


def test_closed_parts_are_as_deep_as_their_schema() -> None:
    assert inspect(POD, {"spec": {"nodeSelector": {"a": nested(100_000)}}}).errors[0].path == "spec.nodeSelector[a]"
    assert inspect(POD, {"foo": nested(100_000)}).unknown == ["foo"]


def test_open_parts_hold_json() -> None:
    assert shown(inspect(MANAGED_JOB, a_task({"a": [{1: 2}]})).errors) == [("spec.tasks[0].a[0]", "TypeInvalid")]
    assert shown(inspect(MANAGED_JOB, a_task({"a": {"b": {1, 2}}})).errors) == [("spec.tasks[0].a.b", "TypeInvalid")]


def test_a_schema_that_contains_itself_is_open_inside() -> None:
    tree = Schema(type="object", properties={"size": Schema(type="integer")})
    tree.properties["child"] = tree

    assert inspect(tree, {"size": 1, "child": {"size": "x"}}) == Findings()
    assert shown(inspect(tree, {"size": 1, "child": nested(100_000)}).errors) == [("child", "Invalid")]


def test_no_more_is_reported_than_people_read() -> None:
    """A list of a million wrong things is refused, not described a million times."""
    findings = inspect(POD, {"metadata": {"finalizers": list(range(5000))}, "spec": {f"f{n}": n for n in range(5000)}})

    assert len(findings.errors) + len(findings.unknown) <= walk._MOST_PROBLEMS


def test_all_unknown_fields_are_removed_even_if_not_all_are_reported() -> None:
    manifest: dict[str, Any] = {f"f{n}": n for n in range(5000)}
    inspect(POD, manifest)

    assert manifest == {}
