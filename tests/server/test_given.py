"""Certificates that are brought: for which names they are, and what makes them useless."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairway.server.given import GivenCertificate, UnusableCertificateError, check_given, public_name
from fairway.server.signing import signed

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def files(folder: Path, *names: str, begins: int = -1, ends: int = 30) -> tuple[Path, Path]:
    made = signed(list(names), NOW + timedelta(days=begins), NOW + timedelta(days=ends))
    certificate, key = folder / f"{names[0]}.crt", folder / f"{names[0]}.key"
    certificate.write_bytes(made.certificate)
    key.write_bytes(made.key)
    return certificate, key


def test_a_good_one_says_its_names_and_its_end(tmp_path: Path) -> None:
    found = check_given(*files(tmp_path, "gpu.example", "10.0.0.5"), NOW)

    assert found == GivenCertificate(("gpu.example", "10.0.0.5"), NOW + timedelta(days=30))


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("gpu.example", True),
        ("GPU.example", True),
        ("a.lab.example", True),
        ("a.b.lab.example", False),
        ("lab.example", False),
        ("10.0.0.5", True),
        ("10.0.0.6", False),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
    ],
)
def test_names_match_as_clients_match_them(name: str, *, covered: bool) -> None:
    assert GivenCertificate(("gpu.example", "*.lab.example", "10.0.0.5", "::1"), NOW).covers(name) is covered


@pytest.mark.parametrize(
    ("days", "want"),
    [
        pytest.param({"begins": -30, "ends": -1}, "expired on 2026-11-15 00:00 UTC; get a new one", id="expired"),
        pytest.param({"begins": 2}, "is valid from 2026-11-18 00:00 UTC; check the clock", id="not yet"),
    ],
)
def test_one_that_does_not_hold_now_is_refused(tmp_path: Path, days: dict[str, int], want: str) -> None:
    with pytest.raises(UnusableCertificateError, match=want.replace("?", r"\?")):
        check_given(*files(tmp_path, "gpu.example", **days), NOW)


def test_the_key_of_another_is_refused(tmp_path: Path) -> None:
    certificate, _ = files(tmp_path, "one.example")
    _, key = files(tmp_path, "two.example")

    with pytest.raises(UnusableCertificateError, match=f"--tls-key {key} is not the key of {certificate}"):
        check_given(certificate, key, NOW)


def test_files_that_cannot_be_read_or_hold_something_else_are_named(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "one.example")
    with pytest.raises(UnusableCertificateError, match=f"--tls-key {tmp_path} cannot be read: Is a directory"):
        check_given(certificate, tmp_path, NOW)
    with pytest.raises(UnusableCertificateError, match=f"--tls-cert {key} is not a certificate in PEM"):
        check_given(key, key, NOW)


@pytest.mark.parametrize(
    ("names", "asked", "usual", "want"),
    [
        pytest.param(("a.example", "b.example"), "b.example", "host", "b.example", id="as asked"),
        pytest.param(("a.example", "host"), None, "host", "host", id="the usual one"),
        pytest.param(("*.example", "b.example"), None, "host", "b.example", id="one that it has"),
        pytest.param(("*.example",), "c.example", "host", "c.example", id="one of many"),
    ],
)
def test_clients_are_given_a_name_that_the_certificate_has(
    names: tuple[str, ...], asked: str | None, usual: str, want: str
) -> None:
    assert public_name(GivenCertificate(names, NOW), Path("x.crt"), asked, usual) == want


@pytest.mark.parametrize(
    ("names", "asked", "want"),
    [
        (("a.example",), "b.example", "--public-name b.example: the certificate x.crt is for a.example"),
        (("*.example",), None, "choose one with --public-name"),
    ],
)
def test_a_name_that_it_does_not_have_is_refused(names: tuple[str, ...], asked: str | None, want: str) -> None:
    with pytest.raises(UnusableCertificateError, match=want):
        public_name(GivenCertificate(names, NOW), Path("x.crt"), asked, "host")
