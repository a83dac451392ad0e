"""Definitions for the tests, and the objects of one as an API server would have them."""

import copy
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from fairway.apis.fairway.quotas import QuotaSpec, parse
from fairway.quota.compare import Live, completed, key_of
from fairway.quota.kueue import render

EXAMPLE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "examples/quota.yaml").read_text())["spec"]


def example() -> dict[str, Any]:
    return copy.deepcopy(EXAMPLE)


def read(spec: dict[str, Any]) -> QuotaSpec:
    quota, errors = parse(spec)
    assert not errors, [str(one) for one in errors]
    return quota


def stored(quota: QuotaSpec, name: str, *, labelled: bool = True) -> Live:
    """The rendered objects, with the defaults of the server; without the labels they were made otherwise."""
    found = {}
    for one in render(quota, name):
        manifest = copy.deepcopy(completed(one))
        if not labelled:
            del manifest["metadata"]["labels"]
        found[key_of(manifest)] = manifest
    return found


_amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.one_of(
        st.one_of(st.integers(0, 64), st.just("500m")),
        st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 64), min_size=1, max_size=2),
    ),
    max_size=3,
)


_names = st.lists(st.sampled_from(["ana", "bo", "*", "3d", "x:y"]), unique=True, min_size=1, max_size=3)
_held = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from([0, 3, 9, "1500m"]), min_size=1, max_size=2)
_jobs = st.integers(1, 9)
_limits = st.lists(
    st.one_of(
        st.fixed_dictionaries({"users": _names, "maximum": _held}, optional={"jobs": _jobs}),
        st.fixed_dictionaries({"groups": _names, "jobs": _jobs}, optional={"maximum": _held, "users": _names}),
    ),
    max_size=3,
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Any definition whose amounts do not contradict each other."""

    def team(name: str) -> dict[str, Any]:
        guaranteed = draw(_amounts)
        found: dict[str, Any] = {"name": name, "guaranteed": guaranteed}
        if draw(st.booleans()):
            found["borrow"] = False
        elif draw(st.booleans()):
            found["maximum"] = {
                resource: {flavor: amount + 3 for flavor, amount in parts.items()} if isinstance(parts, dict) else parts
                for resource, parts in guaranteed.items()
            }
        if draw(st.booleans()):
            found["lend"] = {resource: copy.copy(parts) for resource, parts in guaranteed.items()}
        if draw(st.booleans()):
            found["weight"] = draw(st.sampled_from([0, 1, "500m", 7]))
        if draw(st.booleans()):
            found["namespace"] = f"ns-{name}"
        found["types"] = draw(st.lists(st.sampled_from(["default", "ray", "spark"]), unique=True, max_size=3))
        if found["types"] and draw(st.booleans()):
            found["types"][0] = {"name": found["types"][0], "limits": draw(_limits)}
        found["limits"] = draw(_limits)
        if draw(st.booleans()):
            found["jobs"] = draw(_jobs)
        if draw(st.booleans()):
            found["kueue"] = {"queueingStrategy": "StrictFIFO", "stopPolicy": "Hold"}
        return found

    organizations: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            teams = [team(f"team-{number}-{inner}") for inner in range(draw(st.integers(0, 2)))]
            organizations.append({"name": f"org-{number}", "teams": teams, "limits": draw(_limits)})
            if number and "teams" in organizations[0] and draw(st.booleans()):
                organizations[-1]["parent"] = organizations[0]["name"]
        else:
            organizations.append(team(f"solo-{number}"))
    return {"flavors": [{"name": "a"}, {"name": "b", "nodeLabels": {"x": "y"}}], "organizations": organizations}
