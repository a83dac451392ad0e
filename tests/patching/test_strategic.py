"""Strategic merge patches give what a real API server gave, and refuse what it refused."""

import copy
from typing import Any

import pytest

from fairway.errors import BadRequest, Invalid
from fairway.kinds.schemas.definitions import definition
from fairway.kinds.schemas.schema import Schema
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
