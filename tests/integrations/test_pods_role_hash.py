"""The roles of pods, by the checksums that Kueue 0.19.2 computes for the same specs."""

from typing import Any

import pytest

from fairway.integrations.role_hash import role_hash

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_WISHES = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = {
    "matchLabels": {"b": "1", "a": "0"},
    "matchExpressions": [{"key": "q", "operator": "NotIn", "values": ["r"]}],
}
_AFFINITY = {
    "nodeAffinity": {
        _TERMS: {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"values": ["x", "y"], "key": "k", "operator": "In"}]},
                {"matchFields": [{"key": "f", "operator": "Exists"}]},
            ]
        },
        _WISHES: [{"preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}, "weight": 3}],
    },
    "podAntiAffinity": {
        _TERMS: [
            {
                "topologyKey": "z",
                "labelSelector": _SELECTOR,
                "namespaceSelector": {},
                "namespaces": ["n"],
                "matchLabelKeys": ["l"],
                "mismatchLabelKeys": ["m"],
            }
        ],
        _WISHES: [{"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}],
    },
}
_PLACED = {
    "containers": [
        {
            "name": "c",
            "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "x", "hostIP": "1.2.3.4", "hostPort": 0}],
        }
    ],
    "priority": 0,
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"operator": "Equal", "value": "v<&>", "key": "b", "tolerationSeconds": 0},
    ],
    "nodeSelector": {"b": "1", "a": "2"},
    "affinity": _AFFINITY,
}
_EVERYTHING_ELSE = {
    "containers": [{"name": "c"}, {"name": "d", "resources": {"requests": {}}}],
    "initContainers": [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"cpu": "2"}}}],
    "overhead": {"cpu": "10m"},
    "runtimeClassName": "r",
    "resources": {"requests": {"cpu": "3"}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "t",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
            "minDomains": 2,
            "nodeTaintsPolicy": "Honor",
            "nodeAffinityPolicy": "Ignore",
            "matchLabelKeys": ["x"],
        }
    ],
    "resourceClaims": [
        {"name": "g", "resourceClaimName": "h"},
        {"name": "g2", "resourceClaimTemplateName": "h2"},
    ],
    "nodeSelector": {},
    "tolerations": [],
    "affinity": {},
    "priority": -5,
}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{"name": "c"}]}, "7aa6c7b8", id="of a pod that asks for nothing"),
        pytest.param(_PLACED, "3801e439", id="of a pod that is particular about where it runs"),
        pytest.param(_EVERYTHING_ELSE, "f6068dff", id="of a pod with everything else"),
        pytest.param({"containers": [{"name": "c"}], "resources": {}}, "b4376854", id="of empty resources of a pod"),
    ],
)
def test_the_role(spec: dict[str, Any], want: str) -> None:
    assert role_hash(spec) == want


@pytest.mark.parametrize(
    ("field", "value", "same"),
    [
        pytest.param("nodeSelector", {"a": "b"}, False, id="a selector of nodes makes another role"),
        pytest.param("priority", 1, False, id="a priority makes another role"),
        pytest.param("schedulingGates", [{"name": "g"}], True, id="a gate does not matter"),
        pytest.param("restartPolicy", "Always", True, id="what happens at the end does not matter"),
    ],
)
def test_what_makes_a_role(field: str, value: object, *, same: bool) -> None:
    plain = {"containers": [{"name": "c", "image": "one"}]}
    assert (role_hash({**plain, field: value}) == role_hash(plain)) is same


def test_images_and_commands_do_not_make_a_role() -> None:
    one = {"containers": [{"name": "c", "image": "one", "command": ["x"]}]}
    other = {"containers": [{"name": "d", "image": "two"}]}
    assert role_hash(one) == role_hash(other)
