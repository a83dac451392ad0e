"""A definition as YuniKorn's queues.yaml; the rules are those of its validator (core pkg/common/configs)."""

import base64
import gzip
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given

from fairway.apis.machinery.quantities import Quantity
from fairway.errors import BadRequest
from fairway.quota.compare import Action
from fairway.quota.importing import from_yunikorn
from fairway.quota.yunikorn import compare_configs, config_of, flattened, render, shortfalls

from .definitions import example, read, specs

QUANTITY = re.compile(r"^[0-9]+\s*([mkKMGTPE]i?)?$")
NAME = re.compile(r"^[a-zA-Z0-9_:#/@-]{1,64}$")


def walk(queue: dict[str, Any], parent: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    yield queue, parent
    for child in queue.get("queues") or ():
        yield from walk(child, queue)


def amounts(queue: dict[str, Any], word: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in (queue.get("resources") or {}).get(word, {}).items()}


def check(config: dict[str, Any]) -> None:
    """What YuniKorn's validator refuses."""
    (root,) = config["partitions"][0]["queues"]
    assert "resources" not in root
    for queue, parent in walk(root, {}):
        assert NAME.match(queue["name"])
        names = [child["name"].lower() for child in queue.get("queues") or ()]
        assert len(names) == len(set(names))
        most = amounts(queue, "max")
        for name, amount in amounts(queue, "guaranteed").items():
            assert amount <= most.get(name, amount)
        for name, amount in most.items():
            assert amount <= amounts(parent, "max").get(name, amount)
        for name in {name for child in queue.get("queues") or () for name in amounts(child, "guaranteed")}:
            held = sum((amounts(child, "guaranteed").get(name, Quantity(0)) for child in queue["queues"]), Quantity(0))
            assert queue is root or held <= amounts(queue, "guaranteed")[name]
        for word in ("guaranteed", "max"):
            for text in (queue.get("resources") or {}).get(word, {}).values():
                assert QUANTITY.match(text)
        count = parent.get("maxapplications", 0)
        assert not count or 0 < queue.get("maxapplications", 0) <= count
        check_limits(queue)
    check_limits_below(root, {})


def check_limits(queue: dict[str, Any]) -> None:
    """Those of one queue."""
    seen: dict[str, list[str]] = {"users": [], "groups": []}
    for limit in queue.get("limits") or ():
        assert limit.get("users") or limit.get("groups")
        for kind, names in seen.items():
            for name in limit.get(kind) or ():
                assert re.match(r"^(\*|[_a-zA-Z][a-zA-Z0-9:#/_.@-]*)$", name)
                assert name not in names
                assert "*" not in names, "nobody after everybody"
                names.append(name)
        most = {name: Quantity.parse(text) for name, text in limit.get("maxresources", {}).items()}
        assert any(amount > Quantity(0) for amount in most.values()) or not most
        assert most or limit.get("maxapplications")
        assert not queue.get("maxapplications") or limit.get("maxapplications", 0) <= queue["maxapplications"]
        for name, amount in most.items():
            assert amount <= amounts(queue, "max").get(name, amount)
    assert seen["groups"] != ["*"]


def check_limits_below(queue: dict[str, Any], above: dict[tuple[str, str], dict[str, Any]]) -> None:
    """A limit is at most that of the same name above it, or of everybody above it."""
    held = dict(above)
    for limit in queue.get("limits") or ():
        for kind in ("users", "groups"):
            for name in limit.get(kind) or ():
                bound = above.get((kind, name)) or above.get((kind, "*")) or {}
                for resource, text in bound.get("maxresources", {}).items():
                    mine = limit.get("maxresources", {}).get(resource, text)
                    assert Quantity.parse(mine) <= Quantity.parse(text)
                count = bound.get("maxapplications")
                assert not count or 0 < limit.get("maxapplications", 0) <= count
                held[kind, name] = limit
    for child in queue.get("queues") or ():
        check_limits_below(child, held)


@given(specs())
def test_the_validator_has_nothing_to_refuse(spec: dict[str, Any]) -> None:
    check(render(read(spec)))


@given(specs())
def test_an_imported_configuration_is_rendered_as_it_was(spec: dict[str, Any]) -> None:
    config = yaml.safe_load(yaml.safe_dump(render(read(spec))))
    imported, _ = from_yunikorn(config)
    assert compare_configs(render(read(imported)), config) == []


def test_queues_have_the_paths_of_the_guide_access_lists_and_limits() -> None:
    queues = flattened(render(read(example())))
    assert sorted(path for path in queues if path.count(".") >= 2) == [
        "root.data.default",
        "root.data.spark",
        "root.ml.speech",
        "root.ml.speech.default",
        "root.ml.speech.ray",
        "root.ml.speech.training",
        "root.ml.vision",
        "root.ml.vision.default",
        "root.ml.vision.ray",
        "root.ml.vision.training",
    ]
    assert queues["root.ml.vision"] == {
        "resources": {"guaranteed": {"vcore": "3000m", "memory": "6144Mi"}, "max": {"vcore": "5000m"}},
        "submitacl": " vision",
    }
    assert queues["root.ml"]["adminacl"] == " ml-leads"
    assert queues["root.ml.speech"]["limits"] == [
        {"limit": "organizations[0].teams[1].limits[0]", "users": ["*"], "maxresources": {"vcore": "1000m"}}
    ]


def test_a_queue_that_was_edited_differs_and_another_spelling_does_not() -> None:
    config = render(read(example()))
    live = yaml.safe_load(yaml.safe_dump(config))
    (root,) = live["partitions"][0]["queues"]
    root["queues"][1]["resources"]["guaranteed"]["vcore"] = 1
    assert compare_configs(config, live) == []
    root["queues"][1]["resources"]["guaranteed"]["vcore"] = 4
    (one,) = compare_configs(config, live)
    assert (str(one.key), [field.path for field in one.fields]) == ("Queue root.data", ["resources.guaranteed.vcore"])


@pytest.mark.parametrize("text", ["[]", "partitions: x", "partitions: [x]", "partitions: [{name: default, queues: 3}]"])
def test_a_configuration_that_was_broken_by_hand_has_no_queues(text: str) -> None:
    config = render(read(example()))
    missing = compare_configs(config, yaml.safe_load(text))
    assert {one.key.name for one in missing if one.action is Action.CREATE} >= set(flattened(config)) - {""}


def test_what_yunikorn_cannot_express_is_named() -> None:
    spec = example()
    spec["flavors"].append({"name": "a100"})
    vision = spec["organizations"][0]["teams"][0]
    vision.update(
        lend={"cpu": 1},
        kueue={"stopPolicy": "Hold"},
        guaranteed={"cpu": 3, "memory": "6Gi", "nvidia.com/gpu": {"a100": "500m"}},
        submit={"users": ["system:serviceaccount:ci:runner"]},
        types=["x" * 60],
    )
    spec["organizations"].append({"name": "child", "parent": "ml", "teams": [{"name": "open"}]})
    found = {one.name for one in shortfalls(read(spec))}
    assert found == {
        "AccessList", "Flavors", "Fraction", "KueueOnly", "Lending", "Namespaces", "NoSubmitters", "Parent",
        "PathTooLong", "Weight",
    }  # fmt: skip


def test_a_limit_that_yunikorn_would_refuse_is_left_out_and_said() -> None:
    spec = example()
    ml, data = spec["organizations"]
    ml["limits"] = [{"users": ["*"], "maximum": {"cpu": 2}, "jobs": 3}]
    ml["teams"][0]["limits"] = [
        {"users": ["ana", "*"], "maximum": {"cpu": 8}},
        {"users": ["ana"], "jobs": 1},
        {"groups": ["*"], "jobs": 9},
        {"users": ["3d"], "jobs": 1},
    ]
    data["limits"] = [{"users": ["bo"], "maximum": {"cpu": 0}}]
    queues = flattened(render(read(spec)))
    at = "organizations[0].teams[0].limits[0]"
    assert queues["root.ml.vision"]["limits"] == [
        {"limit": at, "users": ["ana"], "maxresources": {"vcore": "2000m"}, "maxapplications": 3},
        {"limit": at, "users": ["*"], "maxresources": {"vcore": "2000m"}, "maxapplications": 3},
    ]
    assert "limits" not in queues["root.data"]
    said = [one.message for one in shortfalls(read(spec)) if one.name == "UserLimits"]
    words = ("named twice", "'3d'", "only beside a named group", "limit of nothing")
    assert [any(word in one for one in said) for word in words] == [True] * 4


def test_parts_of_a_whole_are_rounded_down() -> None:
    teams = [{"name": name, "guaranteed": {"cpu": "333u", "nvidia.com/gpu": "500m"}} for name in ("a", "b")]
    spec = {"flavors": ["default-flavor"], "organizations": [{"name": "ml", "teams": teams}]}
    queues = flattened(render(read(spec)))
    whole, part = (queues[path]["resources"]["guaranteed"] for path in ("root.ml", "root.ml.a"))
    assert (whole["nvidia.com/gpu"], part["nvidia.com/gpu"]) == ("1", "0")
    assert (whole["vcore"], part["vcore"]) == ("0m", "0m")


@pytest.mark.parametrize("name", ["3d", "a.b"])
def test_a_group_that_an_access_list_would_drop_is_said(name: str) -> None:
    spec = example()
    spec["organizations"][1]["submit"] = {"groups": [name, "data"]}
    assert flattened(render(read(spec)))["root.data"]["submitacl"] == " data"
    assert any(one.name == "AccessList" and name in one.message for one in shortfalls(read(spec)))


def test_a_configuration_may_have_many_queues() -> None:
    """One of 1 000 teams was refused as too large for an object, so that all its queues seemed to be missing."""
    teams = [{"name": f"team-{number}", "guaranteed": {"cpu": 1, "memory": "1Gi"}} for number in range(1500)]
    config = render(read({"flavors": ["default"], "organizations": [{"name": "ml", "teams": teams}]}))
    text = yaml.dump(config, Dumper=yaml.CSafeDumper)
    assert compare_configs(config, config_of({"data": {"queues.yaml": text}})) == []
    with pytest.raises(BadRequest, match="split it"):
        config_of({"data": {"queues.yaml": f"[{'{},' * 200_000}]"}})


def test_a_compressed_configuration_counts_before_the_other() -> None:
    """As YuniKorn reads it: a hand that writes the one key is not hidden behind the other."""
    config = render(read(example()))
    packed = base64.b64encode(gzip.compress(yaml.safe_dump(config).encode())).decode()
    both = {"data": {"queues.yaml": "partitions: []"}, "binaryData": {"queues.yaml.gz": packed}}
    assert compare_configs(config, config_of(both)) == []
    assert config_of({"data": {"queues.yaml": "partitions: []"}}) == {"partitions": []}
    with pytest.raises(BadRequest, match="cannot be unpacked"):
        config_of({"binaryData": {"queues.yaml.gz": "bm90IGd6aXA="}})
