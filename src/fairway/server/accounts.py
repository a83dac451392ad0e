"""Users and groups over HTTP, so that they can be managed from wherever the server is reached.

    GET    …/users[/NAME]          roles, groups and the ids of tokens; never a token
    POST   …/users                 add a user; `status.token` of the answer is shown this once
    PATCH  …/users/NAME            other roles (`spec.bindings`) or groups (`spec.groups`)
    DELETE …/users/NAME
    POST   …/users/NAME/token      one more token
    DELETE …/users/NAME/token?id=  end one
    …/groups                       the same for groups, which have roles and no tokens

Only an admin of the whole server gets here. What is kept, and how, is known to `access.users`.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, MethodNotAllowed, NotFound
from fairway.server import bodies
from fairway.server.access.roles import Binding
from fairway.server.access.users import Account, Group, Users
from fairway.server.requests import Request
from fairway.server.responses import Response, ok
from fairway.server.routes import ResourcePath
from fairway.server.virtual import StoreView, rendered
from fairway.store.verbs import Objects

GROUP: Final = "fairway.dev"
VERSION: Final = "v1alpha1"
_ONE: Final = {"GET": "get", "HEAD": "get", "PATCH": "patch", "DELETE": "delete"}
_MANY: Final = {"GET": "list", "HEAD": "list", "POST": "create"}
_TOKEN: Final = {"POST": "create", "DELETE": "delete"}
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def _kind(kind: str, plural: str, *more: Any) -> Kind:
    roles = custom_column("Roles", ".status.roles", description="What they may do, and where.")
    return Kind(
        group=GROUP,
        kind=kind,
        plural=plural,
        versions=(VERSION,),
        stored=VERSION,
        namespaced=False,
        schemas={},
        columns={VERSION: (roles, *more)},
    )


_USER: Final = _kind(
    "User",
    "users",
    custom_column("Groups", ".status.groups", description="The groups they are in."),
    custom_column("Tokens", ".status.tokenCount", "integer", description="How many tokens they have."),
)
_GROUP: Final = _kind("Group", "groups", custom_column("Members", ".status.members", description="Who is in it."))


class _NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bindings: tuple[Binding, ...] = ()
    groups: tuple[str, ...] = ()
    expires: datetime | None = None
    """When the first token ends."""


class _ChangedUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bindings: tuple[Binding, ...] | None = None
    groups: tuple[str, ...] | None = None


class _GroupSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bindings: tuple[Binding, ...]


class _NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    expires: datetime | None = None


class _Accounts:
    """What users and groups share; keeps the contract of `VirtualResource`."""

    kind: Kind

    def __init__(self, objects: Objects, state: Path, users: Users) -> None:
        """`users` is the instance that requests are authenticated with: it sees a change before the answer leaves."""
        self._view = StoreView(objects)
        self._state = state
        self._users = users

    def close(self) -> None:
        """None takes long."""

    async def _changed(self, change: Callable[[Users], T]) -> T:
        """Do something to the users file in a thread: it waits for a lock and for the disk."""
        result = await asyncio.to_thread(lambda: change(Users(self._state)))
        self._users.refresh()
        return result

    def _listed(self, request: Request, items: list[Manifest]) -> Response:
        whole = {
            "kind": f"{self.kind.kind}List",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {"resourceVersion": str(self._users.generation)},
            "items": items,
        }
        return rendered(self._view, request, self.kind, items, whole)

    def _one(self, request: Request, item: Manifest) -> Response:
        return rendered(self._view, request, self.kind, [item], item)


class UserAccounts(_Accounts):
    """Users, and their tokens."""

    kind = _USER

    def verb(self, request: Request, where: ResourcePath) -> str:
        if where.namespace or where.subresource not in {"", "token"}:
            raise NotFound("the server could not find the requested resource: users are at users[/NAME[/token]]")
        verbs = _TOKEN if where.subresource else _ONE if where.name else _MANY
        return _verb(verbs, request, "users")

    async def answer(self, request: Request, where: ResourcePath) -> Response:
        name = where.name
        match where.subresource, request.method:
            case "token", "POST":
                return await self._add_token(request, name)
            case "token", _:
                return await self._revoke(request, name)
            case _, "POST":
                return await self._add(request)
            case _, "PATCH":
                return await self._change(request, name)
            case _, "DELETE":
                await self._changed(lambda users: users.remove(name))
                return ok(_deleted("users", name))
        if not name:
            return self._listed(request, [_user(account) for account in self._users.all()])
        return self._one(request, self._manifest(name))

    async def _add(self, request: Request) -> Response:
        name, spec = await _body(request, _USER, _NewUser)
        expires = _in_time(spec.expires, self._view.now())
        token = await self._changed(
            lambda users: users.add(name, spec.bindings, groups=_each_once(spec.groups), expires=expires)
        )
        made = self._manifest(name)
        made["status"]["token"] = token
        return ok(made, 201, created=name)

    async def _change(self, request: Request, name: str) -> Response:
        spec = await _patched(request, _USER, _ChangedUser)
        groups = None if spec.groups is None else _each_once(spec.groups)
        await self._changed(lambda users: users.change(name, bindings=spec.bindings, groups=groups))
        return ok(self._manifest(name))

    async def _add_token(self, request: Request, name: str) -> Response:
        data = await request.body()
        body = bodies.manifest(request, data) if data else {}
        expires = _in_time(_spec(_USER, body, _NewToken).expires, self._view.now())
        token = await self._changed(lambda users: users.add_token(name, expires=expires))
        made = self._manifest(name)
        made["status"]["token"] = token
        return ok(made, 201)

    async def _revoke(self, request: Request, name: str) -> Response:
        token = request.query.get("id", "")
        if not token:
            raise BadRequest("id: Required value: id of the token to revoke; status.tokens has the ids")
        await self._changed(lambda users: users.revoke(name, token))
        return ok(_deleted("users", name))

    def _manifest(self, name: str) -> Manifest:
        account = self._users.get(name)
        if account is None:
            raise NotFound(f'user "{name}" not found', details={"name": name, "kind": "users"})
        return _user(account)


class GroupAccounts(_Accounts):
    """Groups that have roles."""

    kind = _GROUP

    def verb(self, request: Request, where: ResourcePath) -> str:
        if where.namespace or where.subresource:
            raise NotFound("the server could not find the requested resource: groups are at groups[/NAME]")
        return _verb(_ONE if where.name else _MANY, request, "groups")

    async def answer(self, request: Request, where: ResourcePath) -> Response:
        name = where.name
        match request.method:
            case "POST":
                name, spec = await _body(request, _GROUP, _GroupSpec)
                await self._changed(lambda users: users.add_group(name, spec.bindings))
                return ok(self._manifest(name), 201, created=name)
            case "PATCH":
                spec = await _patched(request, _GROUP, _GroupSpec)
                await self._changed(lambda users: users.change_group(name, spec.bindings))
                return ok(self._manifest(name))
            case "DELETE":
                await self._changed(lambda users: users.remove_group(name))
                return ok(_deleted("groups", name))
        if not name:
            return self._listed(request, [self._described(group) for group in self._users.groups()])
        return self._one(request, self._manifest(name))

    def _manifest(self, name: str) -> Manifest:
        for group in self._users.groups():
            if group.name == name:
                return self._described(group)
        raise NotFound(f'group "{name}" not found', details={"name": name, "kind": "groups"})

    def _described(self, group: Group) -> Manifest:
        members = [account.name for account in self._users.all() if group.name in account.groups]
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Group",
            "metadata": {"name": group.name},
            "spec": {"bindings": _bindings(group.bindings)},
            "status": {"roles": _roles(group.bindings), "members": ", ".join(members)},
        }


def _user(account: Account) -> Manifest:
    tokens = [
        {
            "id": token.id,
            "created": _timestamp(token.created),
            **({"expires": _timestamp(token.expires)} if token.expires else {}),
            **({"sessionOf": token.of} if token.of else {}),
        }
        for token in account.tokens
    ]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "User",
        "metadata": {"name": account.name, "uid": account.uid},
        "spec": {"bindings": _bindings(account.bindings), "groups": list(account.groups)},
        "status": {
            "roles": _roles(account.bindings),
            "groups": ", ".join(account.groups),
            "tokenCount": len(tokens),
            "tokens": tokens,
        },
    }


def _bindings(bindings: Sequence[Binding]) -> list[Manifest]:
    return [
        {key: value for key, value in msgspec.to_builtins(binding).items() if value is not None} for binding in bindings
    ]


def _roles(bindings: Sequence[Binding]) -> str:
    return ", ".join(
        f"{binding.role} in {binding.namespace}" if binding.namespace else f"{binding.role} everywhere"
        for binding in bindings
    )


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _in_time(expires: datetime | None, now: datetime) -> datetime | None:
    if expires is None:
        return None
    if expires.tzinfo is None:
        raise BadRequest(f"spec.expires: Invalid value: {expires.isoformat()}: must have a time zone, such as Z")
    if expires <= now:
        raise BadRequest(f"spec.expires: Invalid value: {_timestamp(expires)}: is in the past")
    return expires


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _verb(verbs: dict[str, str], request: Request, plural: str) -> str:
    verb = verbs.get(request.method)
    if verb is None:
        raise MethodNotAllowed(f"the server does not allow {request.method} on this path of {plural}.{GROUP}")
    return verb


async def _body(request: Request, kind: Kind, shape: type[S]) -> tuple[str, S]:
    """The name and the spec of an object that is to be created."""
    body = bodies.manifest(request, await request.body())
    spec = _spec(kind, body, shape)
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise BadRequest(f"metadata.name: Required value: name of the {kind.kind.lower()} to add")
    return name, spec


async def _patched(request: Request, kind: Kind, shape: type[S]) -> S:
    """The spec in a merge patch; what it names is replaced as a whole."""
    if request.content_type not in {"application/merge-patch+json", "application/json", ""}:
        raise BadRequest(f"{kind.plural}.{GROUP} are changed with application/merge-patch+json")
    return _spec(kind, bodies.parsed("application/json", bodies.some(await request.body())), shape)


def _spec(kind: Kind, body: Any, shape: type[S]) -> S:
    if not isinstance(body, dict) or body.get("kind", kind.kind) != kind.kind:
        raise BadRequest(f"the body must be a {kind.kind} object of {GROUP}/{VERSION}")
    try:
        return msgspec.convert(body.get("spec") or {}, shape)
    except msgspec.ValidationError as error:
        raise BadRequest(f'{kind.kind} in version "{VERSION}" cannot be handled: spec: {error}') from None


def _deleted(plural: str, name: str) -> Manifest:
    details = {"name": name, "group": GROUP, "kind": plural}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
