"""The server's own certificate, for servers without a user's certificate; `given` is about those.

kubectl and every other client on Kubernetes' Go library send a token only over TLS, so a server without a certificate
would have no users. The authority that signs it exists for one signature: its key is thrown away, its certificate goes
into the kubeconfig, and clients trust nothing else.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

_VALID_DAYS: Final = 3650
_RENEW_DAYS: Final = 30
_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class Certificate(NamedTuple):
    """Files in PEM: the certificate and its key, and the authority that clients are to trust."""

    certificate: Path
    key: Path
    authority: Path


class _About(msgspec.Struct, frozen=True):
    """What is in the files, so that a start need not load the means to read them."""

    names: list[str]
    ends: datetime


def own_certificate(directory: Path, host: str, now: datetime) -> Certificate:
    """The certificate kept in a directory, made anew where it is missing, about to end or for other names."""
    files = Certificate(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    about = directory / "about.json"
    names = list(dict.fromkeys([*_NAMES, host]))
    if not _is_good(files, about, names, now):
        from fairway.server.signing import signed  # noqa: PLC0415 - large, and needed once in ten years

        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ends = now + timedelta(days=_VALID_DAYS)
        made = signed(names, now - timedelta(hours=1), ends)
        write_private(files.authority, made.authority)
        write_private(files.key, made.key)
        write_private(files.certificate, made.certificate)
        write_private(about, msgspec.json.encode(_About(names, ends)))
    return files


def _is_good(files: Certificate, about: Path, names: list[str], now: datetime) -> bool:
    if not all(file.is_file() for file in files):
        return False
    try:
        kept = msgspec.json.decode(about.read_bytes(), type=_About)
    except (OSError, msgspec.MsgspecError):
        return False
    return kept.ends - now > timedelta(days=_RENEW_DAYS) and set(names) <= set(kept.names)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
