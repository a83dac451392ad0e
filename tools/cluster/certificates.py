"""Certificate authorities, key pairs and kubeconfigs of a control plane, with the names that RBAC and the Node
authorizer expect. Keys are readable by their owner only.
"""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEAR = dt.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """A CA that issues key pairs into one directory."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.pair = _write(directory, name, signed, self._key)

    def issue(self, name: str, common_name: str, groups: Iterable[str] = (), hosts: Iterable[str] = ()) -> Pair:
        """A pair for a client, and for a server under these hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(common_name, groups), self._name, key.public_key())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names := [_host(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _write(self._directory, name, builder.sign(self._key, hashes.SHA256()), key)

    def kubeconfig(self, path: Path, server: str, user: Pair) -> Path:
        """A kubeconfig for this user, with all certificates in it."""
        cluster = {"server": server, "certificate-authority-data": _data(self.pair.certificate)}
        keys = {"client-certificate-data": _data(user.certificate), "client-key-data": _data(user.key)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fairway-test", "cluster": cluster}],
            "users": [{"name": "user", "user": keys}],
            "contexts": [{"name": "fairway-test", "context": {"cluster": "fairway-test", "user": "user"}}],
            "current-context": "fairway-test",
        }
        _private(path, json.dumps(config, indent=1).encode())  # JSON is YAML
        return path


def signing_key(directory: Path, name: str) -> Pair:
    """A key for service account tokens: its public and its private half."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = directory / f"{name}.pub"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    _private(directory / f"{name}.key", _key_bytes(key))
    return Pair(public, directory / f"{name}.key")


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + _YEAR)


def _subject(common_name: str, groups: Iterable[str]) -> x509.Name:
    """Kubernetes reads the user from the common name and the groups from the organisations."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _private(pair.key, _key_bytes(key))
    return pair


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
