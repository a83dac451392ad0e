"""Checks of a user's certificate: key, dates and names."""

import ssl
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from fairway.errors import FairwayError


class UnusableCertificateError(FairwayError):
    """The files are not a certificate that clients would accept, and the key that belongs to it."""


class GivenCertificate(NamedTuple):
    """What a certificate says."""

    names: tuple[str, ...]
    ends: datetime

    def covers(self, name: str) -> bool:
        """Whether a client that connects to this name or address accepts it."""
        return any(_matches(name.lower(), pattern.lower()) for pattern in self.names)

    @property
    def first_name(self) -> str:
        """A name that can be connected to; empty if there are only wildcards."""
        return next((name for name in self.names if "*" not in name), "")


def check_given(certificate: Path, key: Path, now: datetime) -> GivenCertificate:
    """Read a certificate and its key; `UnusableCertificateError` says which file is wrong and why."""
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise UnusableCertificateError(f"{option} {path} cannot be read: {error.strerror}") from error
    try:
        found = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except (ValueError, IndexError) as error:
        raise UnusableCertificateError(f"--tls-cert {certificate} is not a certificate in PEM: {error}") from error
    try:
        # An empty password, so that OpenSSL does not prompt: there may be no terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise UnusableCertificateError(
            f"--tls-key {key} is not the key of {certificate}, without a password, in PEM: {error.strerror or error}"
        ) from error
    if found.not_valid_after_utc <= now:
        raise UnusableCertificateError(
            f"--tls-cert {certificate} expired on {found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; get a new one"
        )
    if found.not_valid_before_utc > now:
        raise UnusableCertificateError(
            f"--tls-cert {certificate} is valid from {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check the clock"
        )
    names = _names(found)
    if not names:
        raise UnusableCertificateError(
            f"--tls-cert {certificate} has no subject alternative names, and no client accepts it for any name"
        )
    return GivenCertificate(names, found.not_valid_after_utc.astimezone(UTC))


def public_name(found: GivenCertificate, certificate: Path, asked: str | None, usual: str) -> str:
    """The name that clients connect to: the one that was asked for, the usual one, or one that the certificate has."""
    listed = ", ".join(found.names)
    if asked:
        if not found.covers(asked):
            raise UnusableCertificateError(
                f"--public-name {asked}: the certificate {certificate} is for {listed}; choose one of these, or "
                "give another certificate"
            )
        return asked
    name = usual if found.covers(usual) else found.first_name
    if not name:
        raise UnusableCertificateError(f"the certificate {certificate} is for {listed}: choose one with --public-name")
    return name


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = [str(one) for one in found.get_values_for_type(x509.IPAddress)]
    return (*found.get_values_for_type(x509.DNSName), *addresses)


def _matches(name: str, pattern: str) -> bool:
    try:
        return ip_address(name) == ip_address(pattern)
    except ValueError:
        pass
    if pattern.startswith("*."):
        head, _, rest = name.partition(".")
        return bool(head) and rest == pattern[2:]
    return name == pattern
