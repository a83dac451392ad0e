"""Who looks at the page: a session is a token that the browser keeps in a cookie which no script can read.

It is opened with a token of the user, or with a one-time code that such a token was used to get (`fairway dashboard`),
and is kept among the user's tokens: it survives a restart of the server, is listed, expires and can be revoked, and it
ends with the token that it was opened with.

A browser sends cookies by itself, so a request that relies on one must come from the page: `check_origin`. The cookie
has the server's port in its name, because servers on one host share their cookies.
"""

import re
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fairway.errors import Forbidden, TooManyRequests, Unauthorized
from fairway.server.requests import Request

HEADER: Final = b"x-fairway-page"
"""Sent by the page with every request. A form or an image of another site cannot send it."""

LASTS: Final = timedelta(hours=12)
CODE_SECONDS: Final = 300.0
_MOST_CODES: Final = 1000
_SAFE: Final = frozenset({"GET", "HEAD"})
_COOKIE_VALUE: Final = re.compile(r"fw_[0-9A-Za-z]{43}")


class CodeOwner(NamedTuple):
    """Whom a code lets in: a user, and the token that they got it with."""

    user: str
    token_id: str
    until: float


class LoginCodes:
    """Codes that each let one browser in, within five minutes."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._codes: dict[str, CodeOwner] = {}

    def issue(self, user: str, token_id: str) -> str:
        """A new code."""
        now = self._monotonic()
        self._codes = {code: owner for code, owner in self._codes.items() if owner.until > now}
        if len(self._codes) >= _MOST_CODES:
            raise TooManyRequests(f"{_MOST_CODES} login codes wait to be used; try again in a few minutes")
        code = secrets.token_urlsafe(24)
        self._codes[code] = CodeOwner(user, token_id, now + CODE_SECONDS)
        return code

    def redeem(self, code: str) -> CodeOwner:
        """Whom the code lets in; it is worth nothing afterwards."""
        owner = self._codes.pop(code, None)
        if owner is None or owner.until <= self._monotonic():
            raise Unauthorized("this login code was used or has expired; get another with `fairway dashboard`")
        return owner


def cookie_name(request: Request) -> str:
    """The name of the cookie at the address that the browser uses."""
    port = request.header(b"host").rpartition(":")[2]
    return f"fairway-{port}" if port.isascii() and port.isdigit() else "fairway"


def cookie(request: Request) -> str:
    """The session's token in a request; empty if there is none."""
    given = request.header(b"cookie")
    if not given:
        return ""
    name = cookie_name(request)
    for part in given.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name and _COOKIE_VALUE.fullmatch(value):
            return value
    return ""


def set_cookie(request: Request, token: str, seconds: int) -> tuple[bytes, bytes]:
    """The header that opens a session, or with no token ends it."""
    secure = "; Secure" if urlsplit(request.header(b"origin")).scheme == "https" else ""
    text = f"{cookie_name(request)}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("ascii")


def check_origin(request: Request) -> None:
    """Raises `Forbidden` unless a request with a cookie comes from the page itself.

    What changes something must have the page's header and the page's origin; what only reads must not have been asked
    for by another site, or by another port of this host.
    """
    site = request.header(b"sec-fetch-site")
    if site not in {"", "same-origin"} and not (site == "none" and request.method in _SAFE):
        raise Forbidden("a request with a session of the page must come from the page; use a token elsewhere")
    if request.method in _SAFE:
        return
    if HEADER not in request.headers or urlsplit(request.header(b"origin")).netloc != request.header(b"host"):
        raise Forbidden(
            "a change with a session of the page needs its X-Fairway-Page header and its Origin; use a token elsewhere"
        )
