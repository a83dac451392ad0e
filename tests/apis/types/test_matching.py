"""Which labels a selector takes, and which taints a toleration lets pass."""

from typing import Any

import pytest

from fairway.apis.kueue.objects import LabelSelector, LabelSelectorRequirement, Taint, Toleration
from fairway.apis.machinery.selectors import matches_expression

LABELS = {"team": "a", "tier": "3", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "want"),
    [
        pytest.param("team", "In", ["a", "b"], True, id="In takes a listed value"),
        pytest.param("team", "In", ["b"], False, id="In refuses others"),
        pytest.param("none", "In", ["a"], False, id="In refuses a missing label"),
        pytest.param("team", "NotIn", ["b"], True, id="NotIn takes others"),
        pytest.param("team", "NotIn", ["a"], False, id="NotIn refuses a listed value"),
        pytest.param("none", "NotIn", ["a"], True, id="NotIn takes a missing label"),
        pytest.param("empty", "Exists", [], True, id="Exists takes an empty value"),
        pytest.param("none", "Exists", [], False, id="Exists refuses a missing label"),
        pytest.param("none", "DoesNotExist", [], True, id="DoesNotExist takes a missing label"),
        pytest.param("team", "DoesNotExist", [], False, id="DoesNotExist refuses a label"),
        pytest.param("tier", "Gt", ["2"], True, id="Gt compares numbers"),
        pytest.param("tier", "Gt", ["3"], False, id="Gt is strict"),
        pytest.param("tier", "Gt", ["-10"], True, id="Gt knows negative numbers"),
        pytest.param("tier", "Lt", ["10"], True, id="Lt compares numbers, not text"),
        pytest.param("tier", "Lt", ["3"], False, id="Lt is strict"),
        pytest.param("team", "Gt", ["1"], False, id="Gt refuses text"),
        pytest.param("tier", "Gt", ["x"], False, id="Gt refuses to compare with text"),
        pytest.param("none", "Gt", ["1"], False, id="Gt refuses a missing label"),
        pytest.param("tier", "Gt", ["1", "2"], False, id="Gt needs one number"),
        pytest.param("tier", "Lt", [str(2**63)], False, id="numbers have 64 bits"),
        pytest.param("team", "Like", ["a"], False, id="an unknown operator refuses all"),
    ],
)
def test_expressions(key: str, operator: str, values: list[str], want: bool) -> None:  # noqa: FBT001  a table
    assert matches_expression(key, operator, values, LABELS) is want


def test_a_selector_needs_all_of_its_conditions() -> None:
    expression = LabelSelectorRequirement(key="tier", operator="In", values=("3",))

    assert LabelSelector().matches({})
    assert LabelSelector(match_labels={"team": "a"}, match_expressions=(expression,)).matches(LABELS)
    assert not LabelSelector(match_labels={"team": "b"}, match_expressions=(expression,)).matches(LABELS)
    assert not LabelSelector(match_labels={"team": "a"}, match_expressions=(expression,)).matches({"team": "a"})


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param({"key": "spot", "operator": "Exists"}, True, id="Exists takes any value"),
        pytest.param({"key": "spot", "value": "5"}, True, id="Equal is the default"),
        pytest.param({"key": "spot", "operator": "Equal", "value": "5", "effect": "NoSchedule"}, True, id="the same"),
        pytest.param({"key": "spot", "value": "6"}, False, id="another value"),
        pytest.param({"key": "spot"}, False, id="no value is the empty value"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="another key"),
        pytest.param({"key": "spot", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"operator": "Exists"}, True, id="no key takes everything"),
        pytest.param({"key": "spot", "operator": "Lt", "value": "6"}, True, id="less than the bound"),
        pytest.param({"key": "spot", "operator": "Lt", "value": "5"}, False, id="not less than the bound"),
        pytest.param({"key": "spot", "operator": "Gt", "value": "4"}, True, id="more than the bound"),
        pytest.param({"key": "spot", "operator": "Gt", "value": "x"}, False, id="a bound that is no number"),
        pytest.param({"key": "spot", "operator": "Gt", "value": "04"}, False, id="a number that is oddly written"),
        pytest.param({"key": "spot", "operator": "Like", "value": "5"}, False, id="an unknown operator"),
    ],
)
def test_tolerations(toleration: dict[str, Any], want: bool) -> None:  # noqa: FBT001  a table
    taint = Taint(key="spot", value="5", effect="NoSchedule")

    assert Toleration(**toleration).tolerates(taint) is want
