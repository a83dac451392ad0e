"""Every wrong field of a definition is named, with its value and the way out; several in one go."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from fairway.apis.fairway.quotas import parse
from fairway.apis.machinery.quantities import Quantity

from .definitions import example, read, specs

VISION = "spec.organizations[0].teams[0]"


def vision(spec: dict[str, Any]) -> Any:
    return spec["organizations"][0]["teams"][0]


def put(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda spec: vision(spec).__setitem__(field, value)


def organization(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda spec: spec["organizations"][0].__setitem__(field, value)


BIG = {"name": "ray", "guaranteed": {"cpu": 9}}
NEVER = False
WRONG = [
    ("a misspelt field", put("guarantee", {}), f"{VISION}.guarantee: Unknown field: did you mean guaranteed?"),
    ("no amount", put("guaranteed", {"cpu": "many"}), f'{VISION}.guaranteed.cpu: Invalid value: "many"'),
    ("a negative amount", put("guaranteed", {"cpu": -1}), f"{VISION}.guaranteed.cpu: Invalid value: -1"),
    ("amounts that are a list", put("maximum", [8]), f"{VISION}.maximum: Invalid value"),
    ("an unknown flavor", put("guaranteed", {"cpu": {"spot": 1}}), ".cpu.spot: Unsupported value"),
    ("a maximum below what is guaranteed", put("maximum", {"cpu": 1}), "must be at least what is guaranteed (3)"),
    ("lending more than there is", put("lend", {"cpu": 4}), "must be at most what is guaranteed (3)"),
    ("a maximum without borrowing", put("borrow", NEVER), "is more than is guaranteed, and borrow is false"),
    ("a name in capitals", put("name", "Vision"), f'{VISION}.name: Invalid value: "Vision": must be lower-case'),
    ("no name", put("name", ""), f"{VISION}.name: Required value"),
    ("the name of another team", put("name", "speech"), "also at spec.organizations[0].teams[0].name"),
    ("a job type twice", put("types", ["ray", "ray"]), f'{VISION}.types[1]: Duplicate value: "ray"'),
    ("and in another namespace", put("types", ["ray", {"name": "ray", "namespace": "b"}]), 'Duplicate value: "ray"'),
    ("the queue of another team", put("namespace", "speech"), 'Duplicate value: "speech/default": also at'),
    ("more for job types than for the team", put("types", [BIG]), "its job types are guaranteed 9"),
    ("a limit for nobody", put("limits", [{"jobs": 1}]), f"{VISION}.limits[0]: Required value: whom it limits"),
    ("a limit of nothing", put("limits", [{"users": ["*"]}]), "what it limits: maximum or jobs"),
    ("a user with a space", put("submit", {"users": ["a b"]}), f'{VISION}.submit.users[0]: Invalid value: "a b"'),
    ("half a job", put("jobs", 0), f"{VISION}.jobs: Invalid value: 0"),
    ("no boolean", put("borrow", "no"), f"{VISION}.borrow: Invalid value"),
    ("less than the teams have", organization("guaranteed", {"cpu": 4}), "its teams are guaranteed 5: raise it"),
    ("an unknown parent", organization("parent", "data"), "must be an organization with teams"),
    ("its own parent", organization("parent", "ml"), "must not be each other's parents"),
    ("no list", lambda spec: spec.__setitem__("organizations", {"ml": {}}), "spec.organizations: Invalid value"),
    ("no flavor", lambda spec: spec.__setitem__("flavors", []), "spec.flavors: Required value"),
    ("an unknown target", lambda spec: spec.__setitem__("targets", ["slurm"]), 'supported values: "kueue", "yunikorn"'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), [pytest.param(one, text, id=name) for name, one, text in WRONG])
def test_a_wrong_field_is_named(change: Callable[[dict[str, Any]], None], said: str) -> None:
    spec = example()
    change(spec)
    errors = [str(one) for one in parse(spec)[1]]
    assert any(said in one for one in errors), errors


def test_all_wrong_fields_are_named_at_once() -> None:
    spec = example()
    vision(spec).update(weight="x", jobs=-1, types=[3])
    assert len(parse(spec)[1]) >= 3


@given(specs())
def test_what_is_right_is_accepted(spec: dict[str, Any]) -> None:
    read(spec)


def test_an_organization_without_teams_is_one_team() -> None:
    (_, data) = read(example()).organizations
    (team,) = data.teams
    assert (data.is_team, team.name, team.namespace, [one.name for one in team.types]) == (
        True, "data", "data", ["spark", "default"]
    )  # fmt: skip


def test_teams_share_what_they_leave_of_their_organization() -> None:
    ml = read(example()).organizations[0]
    assert {pool.resource: amount for pool, amount in ml.shared.items()} == {
        "cpu": Quantity.parse(1),
        "memory": Quantity.parse("2Gi"),
    }
