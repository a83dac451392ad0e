"""The page over HTTP.

GET    /page/[FILE]      the page and its files; `/` leads a browser there
POST   /page/codes       a one-time code for the user of a token (`fairway dashboard`)
POST   /page/session     {"code": …} or {"token": …}: opens a session
GET    /page/session     who looks, and what they may do
DELETE /page/session     ends it
GET    /page/machine     how busy the server's machine is, for those who may read nodes
"""

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.errors import BadRequest, Forbidden, MethodNotAllowed, NotFound, Unauthorized
from fairway.server.access.authentication import Authentication
from fairway.server.access.authorization import authorize
from fairway.server.access.roles import User, allowed, is_admin
from fairway.server.access.users import Token, Users
from fairway.server.discovery import version_info
from fairway.server.page import machine, sessions
from fairway.server.page.files import HEADERS, all_files
from fairway.server.requests import Request
from fairway.server.responses import Response, ok

_ROOT: Final = "page"
_LONGEST_BODY: Final = 4096
_PRIVATE: Final = ((b"cache-control", b"no-store"),)


class _Login(msgspec.Struct, forbid_unknown_fields=True):
    code: str = ""
    token: str = ""


class WebPage:
    """Answers requests for the page; `authorization` lets its sessions use the API."""

    def __init__(
        self,
        state: Path,
        users: Users,
        authentication: Authentication,
        now: Callable[[], datetime],
        resources: Collection[str] = (),
    ) -> None:
        """`resources` are those that are answered on request; the page leaves out what would need others."""
        self._resources = sorted(resources)
        self._state = state
        self._users = users
        self._authentication = authentication
        self._now = now
        self._codes = sessions.LoginCodes()
        self._cores = machine.Cores()

    @staticmethod
    def serves(request: Request) -> bool:
        """Whether a request is for the page: below its path, or a browser's for the root."""
        if request.segments[:1] == [_ROOT]:
            return True
        return not request.segments and request.method == "GET" and "text/html" in request.header(b"accept")

    @staticmethod
    def authorization(request: Request) -> bytes:
        """The `Authorization` of a request: its header, else its session, which only the page may use."""
        header = request.headers.get(b"authorization", b"")
        if header or b"cookie" not in request.headers:
            return header
        token = sessions.cookie(request)
        if not token:
            return b""
        sessions.check_origin(request)
        return f"Bearer {token}".encode()

    async def answer(self, request: Request) -> Response:
        match request.segments[1:], request.method:
            case [], "GET" | "HEAD" if not request.path.endswith(f"/{_ROOT}/"):
                return Response(302, b"", headers=((b"location", f"/{_ROOT}/".encode()), *HEADERS))
            case ["codes"], "POST":
                return self._issue(request)
            case ["session"], "POST":
                return await self._open(request)
            case ["session"], "GET":
                return self._who(request)
            case ["session"], "DELETE":
                return await self._end(request)
            case ["machine"], "GET":
                authorize(self._user(request)[0], verb="list", group="", resource="nodes")
                return ok(await asyncio.to_thread(machine.busy, self._cores))
            case _, "GET" | "HEAD":
                return self._file(request)
        raise MethodNotAllowed(f"the server does not allow {request.method} on {request.path[:200]}")

    @staticmethod
    def _file(request: Request) -> Response:
        found = all_files().get("/".join(request.segments[1:]) or "index.html")
        if found is None:
            raise NotFound("the page has no such file")
        headers = ((b"etag", found.tag), (b"cache-control", b"no-cache"), *HEADERS)
        if request.headers.get(b"if-none-match") == found.tag:
            return Response(304, b"", found.content_type, headers)
        return Response(200, found.body, found.content_type, headers)

    def _user(self, request: Request) -> tuple[User, Token]:
        """The user of a request, and their token; `Unauthorized` without one."""
        user, token = self._authentication.identify(self.authorization(request))
        if token is None:
            raise Unauthorized("log in first: `fairway dashboard` opens the page with a login")
        return user, token

    def _issue(self, request: Request) -> Response:
        user, token = self._user(request)
        if token.of:
            raise Forbidden("a session of the page opens no other one; use a token")
        return ok({"code": self._codes.issue(user.name, token.id), "seconds": sessions.CODE_SECONDS}, 201)

    async def _open(self, request: Request) -> Response:
        sessions.check_origin(request)
        try:
            login = msgspec.json.decode(await request.body(_LONGEST_BODY), type=_Login)
        except msgspec.MsgspecError as error:
            raise BadRequest(f"the body must be a code or a token: {error}") from None
        if login.code:
            owner = self._codes.redeem(login.code)
            name, token_id = owner.user, owner.token_id
        else:
            user, token = self._authentication.identify(f"Bearer {login.token.strip()}".encode("utf-8", "replace"))
            if token is None or token.of:
                raise Unauthorized("this is no token of a user; `fairway users token NAME` makes one")
            name, token_id = user.name, token.id
        expires = self._now() + sessions.LASTS
        opened = await self._changed(lambda users: users.add_session(name, of=token_id, expires=expires))
        set_cookie = sessions.set_cookie(request, opened, int(sessions.LASTS.total_seconds()))
        return Response(201, b"{}", headers=(set_cookie, *_PRIVATE))

    def _who(self, request: Request) -> Response:
        """The user; an empty one where there is no session, which is no error of the page that has to find out."""
        try:
            user, token = self._user(request)
        except Unauthorized:
            return msgspec.structs.replace(ok({"user": ""}), headers=_PRIVATE)
        return msgspec.structs.replace(ok(self._described(user, token)), headers=_PRIVATE)

    def _described(self, user: User, token: Token) -> dict[str, Any]:
        """What the page must know of its user before it asks for anything else."""
        spaces = sorted({binding.namespace for binding in user.bindings if binding.namespace is not None})
        return {
            "user": user.name,
            "admin": is_admin(user),
            "everywhere": _reads(user, ""),
            "nodes": allowed(user, verb="list", group="", resource="nodes"),
            "writes": _writes(user, ""),
            "namespaces": [{"name": one, "writes": _writes(user, one)} for one in spaces if _reads(user, one)],
            "resources": self._resources,
            "expires": token.expires,
            "now": self._now(),
            "version": version_info()["gitVersion"],
        }

    async def _end(self, request: Request) -> Response:
        user, token = self._user(request)
        if token.of:
            await self._changed(lambda users: users.revoke(user.name, token.id))
        return Response(200, b"{}", headers=(sessions.set_cookie(request, "", 0), *_PRIVATE))

    async def _changed(self, change: Callable[[Users], Any]) -> Any:
        """Change the users file in a thread: it waits for a lock and for the disk."""
        result = await asyncio.to_thread(lambda: change(Users(self._state)))
        self._users.refresh()
        return result


def _reads(user: User, namespace: str) -> bool:
    return allowed(user, verb="list", group="fairway.dev", resource="managedjobs", namespace=namespace)


def _writes(user: User, namespace: str) -> bool:
    return allowed(user, verb="patch", group="fairway.dev", resource="managedjobs", namespace=namespace)
