"""The files of the page: read once, sent with the headers that keep a browser from doing more than it must.

There is no inline script or style, so the policy allows none, and nothing is loaded from anywhere else.
"""

import hashlib
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

_TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


class PageFile(NamedTuple):
    """One file."""

    body: bytes
    content_type: bytes
    tag: bytes
    """The `ETag`."""


@cache
def all_files() -> dict[str, PageFile]:
    """Every file by its path below the page."""
    found = {}
    folders = [("", resources.files("fairway.server.page").joinpath("static"))]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            elif kind := _TYPES.get(entry.name.rpartition(".")[2]):
                body = entry.read_bytes()
                tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
                found[f"{prefix}{entry.name}"] = PageFile(body, kind, tag)
    return found
