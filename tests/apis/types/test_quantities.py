"""Quantities: every suffix, exact values, Kubernetes' canonical text, and Kueue's whole numbers."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.quantities import UNLIMITED, ZERO, Format, Quantity, amount_of, format_amount, quantity_of

parse = Quantity.parse

SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
    "e3": 10**3,
    "E-2": Fraction(1, 100),
}

quantities = st.builds(
    lambda sign, whole, fraction, suffix: parse(f"{sign}{whole}{fraction}{suffix}"),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**21),
    st.sampled_from(["", ".", ".5", ".125", ".000000001", ".1234567891234"]),
    st.sampled_from(sorted(SUFFIXES)),
)


@pytest.mark.parametrize(
    ("text", "canonical", "value", "milli"),
    [
        pytest.param("0", "0", 0, 0, id="zero"),
        pytest.param("0Ki", "0", 0, 0, id="zero has no suffix"),
        pytest.param("1", "1", 1, 1000, id="one"),
        pytest.param("500m", "500m", 1, 500, id="values round up to whole units"),
        pytest.param("1.5", "1500m", 2, 1500, id="fractions become milli"),
        pytest.param("1500m", "1500m", 2, 1500, id="milli stays where it must"),
        pytest.param("2000m", "2", 2, 2000, id="milli goes where it can"),
        pytest.param("1.500", "1500m", 2, 1500, id="zeros behind the point do not count"),
        pytest.param("1.0", "1", 1, 1000, id="one point zero"),
        pytest.param(".5", "500m", 1, 500, id="nothing before the point"),
        pytest.param("5.", "5", 5, 5000, id="nothing behind the point"),
        pytest.param("+5", "5", 5, 5000, id="a plus is dropped"),
        pytest.param("007", "7", 7, 7000, id="zeros in front are dropped"),
        pytest.param("-1500m", "-1500m", -2, -1500, id="negative numbers round away from zero"),
        pytest.param("1u", "1u", 1, 1, id="micro"),
        pytest.param("1n", "1n", 1, 1, id="nano is the least"),
        pytest.param("0.1n", "1n", 1, 1, id="less than nano rounds up to it"),
        pytest.param("1.0000000001", "1000000001n", 2, 1001, id="digits beyond nano round up"),
        pytest.param("-0.1n", "-1n", -1, -1, id="less than nano rounds away from zero"),
        pytest.param("1k", "1k", 1000, 10**6, id="kilo"),
        pytest.param("1000", "1k", 1000, 10**6, id="a thousand becomes kilo"),
        pytest.param("1234k", "1234k", 1234000, 1234 * 10**6, id="kilo keeps its digits"),
        pytest.param("100M", "100M", 10**8, 10**11, id="mega"),
        pytest.param("1G", "1G", 10**9, 10**12, id="giga"),
        pytest.param("1T", "1T", 10**12, 10**15, id="tera"),
        pytest.param("1P", "1P", 10**15, 10**18, id="peta"),
        pytest.param("1E", "1E", 10**18, 10**21, id="exa"),
        pytest.param("5000E", "5000E", 5 * 10**21, 5 * 10**24, id="above exa the digits grow"),
        pytest.param("1Ki", "1Ki", 1024, 1024000, id="kibi"),
        pytest.param("512Ki", "512Ki", 524288, 524288000, id="half a mebi"),
        pytest.param("1024Ki", "1Mi", 2**20, 2**20 * 1000, id="mebi"),
        pytest.param("1.5Gi", "1536Mi", 3 * 2**29, 3 * 2**29 * 1000, id="a fraction of a gibi becomes mebi"),
        pytest.param("1Ti", "1Ti", 2**40, 2**40 * 1000, id="tebi"),
        pytest.param("1Pi", "1Pi", 2**50, 2**50 * 1000, id="pebi"),
        pytest.param("1Ei", "1Ei", 2**60, 2**60 * 1000, id="exbi"),
        pytest.param("0.5Ki", "512", 512, 512000, id="less than a kibi has no binary suffix"),
        pytest.param("0.001Ki", "1024m", 2, 1024, id="a binary fraction becomes decimal"),
        pytest.param("100Ei", str(UNLIMITED), UNLIMITED, UNLIMITED * 1000, id="binary suffixes end at 63 bits"),
        pytest.param("-100Ei", str(-UNLIMITED), -UNLIMITED, -UNLIMITED * 1000, id="and on the other side"),
        pytest.param("1e3", "1e3", 1000, 10**6, id="exponents stay exponents"),
        pytest.param("1E3", "1e3", 1000, 10**6, id="a capital E with digits is an exponent"),
        pytest.param("12e5", "1200e3", 1200000, 12 * 10**8, id="exponents are multiples of three"),
        pytest.param("1e-3", "1e-3", 1, 1, id="negative exponent"),
        pytest.param("1e0", "1", 1, 1000, id="no exponent is written for zero"),
        pytest.param("1e-100", "1e-9", 1, 1, id="a tiny number is not nothing"),
        pytest.param("1e-999999999", "1e-9", 1, 1, id="however tiny"),
        pytest.param("1e30", "1e30", 10**30, 10**33, id="exponents have no cap"),
    ],
)
def test_reading_and_writing(text: str, canonical: str, value: int, milli: int) -> None:
    quantity = parse(text)

    assert str(quantity) == canonical
    assert quantity.value() == value
    assert quantity.milli() == milli


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "-", "+.", "Gi", "1 ", " 1", "1Gi ", "1\n", "1,5", "1K", "1ki", "1mi", "1e", "1e1.5", "1ee3"),
        *("--1", "1m5", "1i", "0x10", "1_000", "٣", "nan", "inf", "1KiB", "1" * 600, "1e999999999"),
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantities must match|too large"):
        parse(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True])
def test_numbers_that_are_no_quantity_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="quantit"):
        parse(value)


def test_numbers_are_read_by_their_digits() -> None:
    assert str(parse(5)) == "5"
    assert str(parse(-2)) == "-2"
    assert str(parse(0.1)) == "100m"
    assert str(parse(1e-7)) == "100e-9"
    assert parse(parse("3")) == parse("3")


def test_equality_order_and_hash_ignore_the_suffix() -> None:
    assert parse("1Ki") == parse("1024") == parse("1.024k")
    assert len({parse("1Ki"), parse("1024"), parse("1.024e3")}) == 1
    assert parse("1") != "1"
    assert sorted([parse("1Gi"), parse("1G"), parse("900m"), parse("-1")]) == [
        parse("-1"),
        parse("900m"),
        parse("1G"),
        parse("1Gi"),
    ]
    assert parse("1") <= parse("1000m") < parse("1001m")
    assert parse("2") > parse("1")
    assert parse("2") >= parse("2")


def test_arithmetic_keeps_the_first_suffix_that_counts() -> None:
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("1") - parse("250m")) == "750m"
    assert str(parse("0") - parse("1Ki")) == "-1Ki"
    assert str(parse("1.5") * 3) == "4500m"
    assert str(2 * parse("1Gi")) == "2Gi"
    assert str(-parse("1Gi")) == "-1Gi"


def test_arithmetic_with_anything_else_is_an_error() -> None:
    one = parse("1")
    for other in (1, "1", 1.5, None):
        with pytest.raises(TypeError):
            one + other  # type: ignore[operator]  # the point of the test
        with pytest.raises(TypeError):
            one - other  # type: ignore[operator]  # the point of the test
        with pytest.raises(TypeError):
            _ = one < other
    for factor in (1.5, True):
        with pytest.raises(TypeError):
            one * factor  # type: ignore[operator]  # the point of the test


def test_a_quantity_cannot_be_changed_and_survives_pickle() -> None:
    one = parse("1Gi")
    with pytest.raises(AttributeError, match="immutable"):
        one.nanos = 5  # type: ignore[misc]  # the point of the test
    with pytest.raises(AttributeError, match="immutable"):
        del one._nanos
    copied = pickle.loads(pickle.dumps(one))  # noqa: S301  our own bytes

    assert (copied, copied.format) == (one, Format.BINARY_SI)
    assert repr(copied) == "Quantity('1Gi')"


@given(st.sampled_from(sorted(SUFFIXES)), st.integers(-(10**6), 10**6))
def test_every_suffix_means_what_it_says(suffix: str, number: int) -> None:
    exact = Fraction(number) * SUFFIXES[suffix]
    rounded = math.ceil(abs(exact) * 10**9) * (-1 if exact < 0 else 1)

    if not (suffix.endswith("i") and abs(exact) > UNLIMITED):
        assert parse(f"{number}{suffix}").nanos == rounded


@given(quantities)
def test_the_text_is_canonical_and_loses_nothing(quantity: Quantity) -> None:
    text = str(quantity)

    assert parse(text) == quantity
    assert str(parse(text)) == text
    assert "." not in text


@given(quantities, quantities)
def test_order_is_the_order_of_the_numbers(one: Quantity, other: Quantity) -> None:
    assert (one < other) == (Fraction(one.nanos) < Fraction(other.nanos))
    assert (one == other) == (hash(one) == hash(other) and one.nanos == other.nanos)
    assert (one + other) - other == one


@pytest.mark.parametrize(
    ("resource", "text", "amount", "shown"),
    [
        pytest.param("cpu", "1500m", 1500, "1500m", id="cpu is counted in milli"),
        pytest.param("cpu", "2", 2000, "2", id="whole cores"),
        pytest.param("cpu", "1u", 1, "1m", id="less than a milli rounds up"),
        pytest.param("memory", "1Gi", 2**30, "1Gi", id="memory in bytes"),
        pytest.param("memory", "1500m", 2, "2", id="half a byte is a byte"),
        pytest.param("memory", "1000", 1000, "1k", id="a small number of bytes has a decimal suffix"),
        pytest.param("memory", "2000", 2000, "2k", id="so has one that no power of two divides"),
        pytest.param("memory", "1500", 1500, "1500", id="or none"),
        pytest.param("ephemeral-storage", "10Mi", 10 * 2**20, "10Mi", id="storage in bytes"),
        pytest.param("hugepages-2Mi", "4Mi", 4 * 2**20, "4Mi", id="huge pages in bytes"),
        pytest.param("nvidia.com/gpu", "8", 8, "8", id="devices are counted"),
        pytest.param("example.com/bytes", "1Gi", 2**30, "1073741824", id="others are shown in decimal"),
        pytest.param("nvidia.com/gpu", "1k", 1000, "1k", id="with a decimal suffix"),
        pytest.param("cpu", "1E", UNLIMITED, "<unlimited>", id="what does not fit is unlimited"),
        pytest.param("cpu", "9223372036854775", UNLIMITED, "<unlimited>", id="where whole cores end"),
        pytest.param("cpu", "9223372036854774", 9223372036854774000, "9223372036854774", id="one core before"),
        pytest.param("memory", "8Ei", UNLIMITED, "<unlimited>", id="too many bytes"),
        pytest.param("pods", "0", 0, "0", id="nothing"),
        pytest.param("cpu", "-1", -1000, "-1", id="a debt"),
    ],
)
def test_amounts(resource: str, text: str, amount: int, shown: str) -> None:
    assert amount_of(resource, parse(text)) == amount
    assert format_amount(resource, amount) == shown


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 9 * 10**18))
def test_an_amount_survives_being_a_quantity(resource: str, amount: int) -> None:
    assert amount_of(resource, quantity_of(resource, amount)) == amount
    assert amount_of(resource, parse(format_amount(resource, amount))) == amount


def test_zero_is_zero() -> None:
    assert parse("0m") == ZERO
    assert str(ZERO) == "0"
