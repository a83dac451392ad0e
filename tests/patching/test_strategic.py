"""Strategic merge patches give what a real API server gave, and refuse what it refused."""

import copy
from typing import Any

import pytest

from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import BadRequest, Invalid
from fairway.store.patching.strategic import strategic_merge

from .recordings import differences, recorded

_POD_TEMPLATE = Schema(type="object", properties={"template": definition("io.k8s.api.core.v1.PodTemplateSpec")})


@pytest.mark.parametrize("record", recorded("strategic.json"), ids=lambda record: record["name"])
def test_replayed_patch_has_the_recorded_outcome(record: dict[str, Any]) -> None:
    document = {"template": record["original"]}
    untouched = copy.deepcopy((document, record["patch"]))
    if "refused" in record:
        with pytest.raises((BadRequest, Invalid)):
            strategic_merge(document, record["patch"], _POD_TEMPLATE)
    else:
        result = strategic_merge(document, record["patch"], _POD_TEMPLATE)
        assert differences(result["template"], record["result"], record["original"]) == []
    assert (document, record["patch"]) == untouched


def _spec(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": fields}}


_DOCUMENT = _spec(containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "j"}], nodeSelector={"x": "y"})


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        pytest.param([], BadRequest, id="a list"),
        pytest.param(_spec(**{"$deleteFromPrimitiveList/x": "y"}), BadRequest, id="deleting what is no list"),
        pytest.param(_spec(**{"$setElementOrder/containers": "y"}), BadRequest, id="an order that is no list"),
        pytest.param(_spec(**{"$setElementOrder/nodeSelector": []}), BadRequest, id="an order of what is no list"),
        pytest.param(_spec(containers=[{"name": {"a": 1}}]), Invalid, id="an object as merge key"),
        pytest.param(_spec(containers=[{"name": "a"}, 1]), Invalid, id="a number among objects"),
        pytest.param(_spec(containers=[[1]]), Invalid, id="a list in a list"),
        pytest.param(_spec(containers=[{"name": "a", "$patch": {"x": 1}}]), BadRequest, id="an object as directive"),
        pytest.param(_spec(nodeSelector={"$patch": ["delete"]}), BadRequest, id="a list as directive"),
        pytest.param(_spec(containers=[{"$patch": "delete"}]), Invalid, id="deleting an element without saying which"),
    ],
)
def test_patch_that_makes_no_sense_is_refused(patch: object, error: type[Exception]) -> None:
    before = copy.deepcopy(_DOCUMENT)
    with pytest.raises(error):
        strategic_merge(_DOCUMENT, patch, _POD_TEMPLATE)
    assert before == _DOCUMENT


def test_merge_can_be_said_though_it_is_the_rule() -> None:
    element = {"name": "b", "image": "k", "$patch": "merge"}
    patch = _spec(nodeSelector={"$patch": "merge", "z": "1"}, containers=[element])
    result = strategic_merge(_DOCUMENT, patch, _POD_TEMPLATE)["template"]["spec"]
    assert result["nodeSelector"] == {"x": "y", "z": "1"}
    assert result["containers"] == [{"name": "a", "image": "i"}, {"name": "b", "image": "k"}]


def test_directives_in_what_is_new_do_not_stay() -> None:
    patch = _spec(
        initContainers=[{"name": "n", "$setElementOrder/env": [{"name": "e"}], "env": [{"name": "e", "value": None}]}],
        affinity={"$retainKeys": ["podAffinity"], "podAffinity": {}},
    )
    result = strategic_merge(_DOCUMENT, patch, _POD_TEMPLATE)["template"]["spec"]
    assert result["initContainers"] == [{"name": "n", "env": [{"name": "e"}]}]
    assert result["affinity"] == {"podAffinity": {}}


def test_large_lists_are_merged_in_one_go() -> None:
    """Twenty thousand elements against as many, which no pairwise comparison would survive."""
    ours = [{"name": f"c{index}", "image": "i"} for index in range(20_000)]
    theirs = [{"name": f"c{index}", "image": "j"} for index in range(10_000, 30_000)]
    result = strategic_merge(_spec(containers=ours), _spec(containers=theirs), _POD_TEMPLATE)
    containers = result["template"]["spec"]["containers"]
    assert len(containers) == 30_000
    assert {item["image"] for item in containers if int(item["name"][1:]) >= 10_000} == {"j"}
