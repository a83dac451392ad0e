"""A pod spec that was fine once is not walked again; what is found, removed and filled in is the same each time."""

import copy
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.schemas import walk
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.walk import Findings, inspect

JOB = definition("io.k8s.api.batch.v1.Job")
WORKLOAD = definition("io.x-k8s.kueue.v1beta2.Workload")
POD = definition("io.k8s.api.core.v1.Pod")

SCALARS: st.SearchStrategy[Any] = st.sampled_from(["Never", "", "1", 1, 1.0, True, None, -1, {}, [], "x"])
PORTS = st.fixed_dictionaries({}, optional={"containerPort": SCALARS, "protocol": SCALARS, "colour": SCALARS})
CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        "name": SCALARS,
        "image": SCALARS,
        "colour": SCALARS,
        "command": st.lists(SCALARS, max_size=2) | SCALARS,
        "ports": st.lists(PORTS | SCALARS, max_size=2),
        "resources": st.fixed_dictionaries(
            {}, optional={"requests": st.dictionaries(st.sampled_from(["cpu", 1]), SCALARS) | SCALARS}
        ),
    },
)
POD_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "restartPolicy": SCALARS,
        "colour": SCALARS,
        "terminationGracePeriodSeconds": SCALARS,
        "nodeSelector": st.dictionaries(st.sampled_from(["a", 1]), SCALARS, max_size=2) | SCALARS,
        "containers": st.lists(CONTAINERS | SCALARS, max_size=2) | SCALARS,
        "tolerations": st.lists(st.fixed_dictionaries({}, optional={"key": SCALARS, "operator": SCALARS}), max_size=2),
    },
)
HOLDERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (POD, lambda spec: {"spec": spec}),
    (JOB, lambda spec: {"spec": {"template": {"spec": spec}}}),
    (WORKLOAD, lambda spec: {"spec": {"podSets": [{"name": "main", "template": {"spec": spec}}]}}),
]


def walked(schema: Any, manifest: Any) -> tuple[Findings, Any]:
    found = copy.deepcopy(manifest)
    return inspect(schema, found), found


def the_long_way(schema: Any, manifest: Any) -> tuple[Findings, Any]:
    with patch.object(walk, "written", lambda _value: None):
        return walked(schema, manifest)


def same(one: Any, other: Any) -> bool:
    return one == other and repr(one) == repr(other)  # `1` and `true` are equal to Python


@given(st.lists(POD_SPECS | SCALARS, min_size=1, max_size=4))
def test_a_pod_spec_is_walked_as_if_it_had_never_come_before(specs: list[Any]) -> None:
    for schema, holding in HOLDERS:
        for spec in [*specs, *specs, *reversed(specs)]:
            manifest = holding(spec)
            assert same(walked(schema, manifest), the_long_way(schema, manifest))
