"""How errors read, and what they carry."""

import pickle

import pytest

from fairway.errors import FairwayError, FieldError, ValidationError

NEGATIVE = FieldError("spec.nominalQuota", "-1", "FieldValueInvalid", "must be greater than or equal to 0")


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            NEGATIVE,
            'spec.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
            id="a string is quoted",
        ),
        pytest.param(FieldError("a", 3, "FieldValueInvalid", "m"), "a: Invalid value: 3: m", id="a number is not"),
        pytest.param(
            FieldError("a", value=True, rule="FieldValueInvalid", message=""),
            "a: Invalid value: true",
            id="no message, no colon",
        ),
        pytest.param(FieldError("a", None, "FieldValueRequired", ""), "a: Required value", id="required has no value"),
        pytest.param(
            FieldError("a", "x", "FieldValueForbidden", "no"), "a: Forbidden: no", id="forbidden has no value"
        ),
        pytest.param(
            FieldError("a", "x" * 99, "FieldValueTooLong", "may not be more than 63 bytes"),
            "a: Too long: may not be more than 63 bytes",
            id="what is too long is not repeated",
        ),
        pytest.param(FieldError("a", "x", "FieldValueDuplicate", ""), 'a: Duplicate value: "x"', id="duplicate"),
        pytest.param(FieldError("a", "x", "FieldValueNotFound", ""), 'a: Not found: "x"', id="not found"),
        pytest.param(
            FieldError("a", 9, "FieldValueTooMany", "must have at most 8 items"),
            "a: Too many: 9: must have at most 8 items",
            id="too many says how many",
        ),
        pytest.param(
            FieldError("spec.cohrot", 1, "FieldUnknown", 'did you mean "cohort"?'),
            'spec.cohrot: Unknown field: did you mean "cohort"?',
            id="unknown field with a hint",
        ),
        pytest.param(FieldError("", [1], "FieldValueInvalid", "m"), "Invalid value: [1]: m", id="the object itself"),
        pytest.param(
            FieldError("a", {("b",): 1}, "FieldValueInvalid", "m"),
            "a: Invalid value: <dict>: m",
            id="what JSON cannot say is named by its type",
        ),
    ],
)
def test_a_field_error_reads_as_in_kubernetes(error: FieldError, want: str) -> None:
    assert str(error) == want


def test_long_values_are_cut() -> None:
    text = str(FieldError("a", "x" * 1000, "FieldValueInvalid", "m"))

    assert len(text) < 300
    assert "…" in text


def test_an_object_that_contains_itself_can_be_reported() -> None:
    loop: list[object] = []
    loop.append(loop)

    assert str(FieldError("a", loop, "FieldValueInvalid", "m")) == "a: Invalid value: <list>: m"


def test_one_error_stands_alone_and_several_in_brackets() -> None:
    second = FieldError("spec.cohort", "X", "FieldValueInvalid", "lower case")

    assert str(ValidationError("ClusterQueue", "team-a", [NEGATIVE])) == (
        'ClusterQueue "team-a" is invalid: spec.nominalQuota: Invalid value: "-1": must be greater than or equal to 0'
    )
    assert str(ValidationError("ClusterQueue", "team-a", [NEGATIVE, second, NEGATIVE])) == (
        'ClusterQueue "team-a" is invalid: ['
        'spec.nominalQuota: Invalid value: "-1": must be greater than or equal to 0, '
        'spec.cohort: Invalid value: "X": lower case]'
    )


def test_a_validation_error_carries_its_parts_also_through_pickle() -> None:
    error = ValidationError("ClusterQueue", "team-a", [NEGATIVE])
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes

    assert isinstance(error, FairwayError)
    assert (copied.kind, copied.name, copied.errors) == ("ClusterQueue", "team-a", (NEGATIVE,))
    assert str(copied) == str(error)


def test_an_error_without_reasons_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ValidationError("ClusterQueue", "team-a", [])
