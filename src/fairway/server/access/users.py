"""The users and groups of one server, in the file `users.json` of its state directory.

A user has the roles of their own and those of every group they are in.

The file holds hashes of tokens, never tokens: a token is shown once, when it is made. It is replaced as a whole, so a
reader sees the old or the new one and a crash leaves one of them; writers hold a lock, so changes by
several processes are not lost. A running server notices a change by itself, within milliseconds.
"""

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from fairway.errors import AlreadyExists, FairwayError, FieldError, NotFound, ValidationError
from fairway.runtime.clock import Clock, SystemClock
from fairway.server.access.roles import AUTHENTICATED_GROUP, Binding, User

FORMAT = 2
"""2: groups have roles."""

FILE_NAME = "users.json"

MOST_SESSIONS = 20
"""Of one user on the web page."""

_log = logging.getLogger(__name__)

_TOKEN_BITS = 256
_TOKEN_LENGTH = 43
"""As many digits to the base 62 as 256 bits need."""
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?")
T = TypeVar("T")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class UsersFileBroken(FairwayError):
    """This version of Fairway cannot read the users file."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a token."""

    id: str
    sha256: str
    created: datetime
    expires: datetime | None = None
    of: str = ""
    """Of a session of the web page: the id of the token that it was opened with, and ends with."""


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person or program, with their roles and tokens."""

    name: str
    uid: str
    bindings: tuple[Binding, ...] = ()
    groups: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()

    def as_user(self, groups: Mapping[str, "Group"]) -> User:
        """With the roles of the groups they are in."""
        granted = (binding for name in self.groups if name in groups for binding in groups[name].bindings)
        bindings = tuple(dict.fromkeys((*self.bindings, *granted)))
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED_GROUP), bindings)


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group that has roles; one that users merely name has none, and need not be here."""

    name: str
    bindings: tuple[Binding, ...] = ()


class _File(msgspec.Struct, frozen=True):
    format: int
    users: tuple[Account, ...] = ()
    groups: tuple[Group, ...] = ()


class _Content(NamedTuple):
    """What the file says, by name."""

    accounts: dict[str, Account]
    groups: dict[str, Group]


class _Head(msgspec.Struct, frozen=True):
    format: int


class Users:
    """The users file of one state directory, for reading at every request and for changing now and then."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        """Reads the file if there is one; raises `UsersFileBroken` if it cannot be understood."""
        self._path = directory / FILE_NAME
        self._name = os.fspath(self._path)
        self._clock = clock or SystemClock()
        self._seen: tuple[int, int, int] | None = None
        self._accounts: dict[str, Account] = {}
        self._groups: dict[str, Group] = {}
        self._by_hash: dict[str, tuple[User, Token]] = {}
        self.generation = 0
        """Another number whenever the users are others."""

        self._take(self._read())

    def find(self, token: str) -> User | None:
        """The user of a token; `None` if it is unknown, revoked or expired."""
        self.refresh()
        found = self.kept(token)
        return found[0] if found is not None else None

    def kept(self, token: str) -> tuple[User, Token] | None:
        """The same with what is kept of the token, as the file was when it was last looked at."""
        digest = _digest(token)
        found = self._by_hash.get(digest)
        if found is None or not hmac.compare_digest(found[1].sha256, digest):
            return None
        expires = found[1].expires
        return None if expires is not None and expires <= self._clock.now() else found

    def get(self, name: str) -> Account | None:
        self.refresh()
        return self._accounts.get(name)

    def all(self) -> tuple[Account, ...]:
        """Everybody, by name."""
        self.refresh()
        return tuple(sorted(self._accounts.values(), key=lambda account: account.name))

    def groups(self) -> tuple[Group, ...]:
        """The groups that have roles, by name."""
        self.refresh()
        return tuple(sorted(self._groups.values(), key=lambda group: group.name))

    def bindings_of(self, groups: Iterable[str]) -> tuple[Binding, ...]:
        """The roles that these groups give."""
        self.refresh()
        known = [self._groups[name] for name in groups if name in self._groups]
        return tuple(dict.fromkeys(binding for group in known for binding in group.bindings))

    def add(
        self,
        name: str,
        bindings: tuple[Binding, ...],
        *,
        groups: tuple[str, ...] = (),
        expires: datetime | None = None,
    ) -> str:
        """Adds a user and returns their first token, which is not stored."""
        _validate(name, bindings, groups)
        token, kept = self._new_token(expires)
        with self._changing() as (accounts, _):
            if name in accounts:
                raise AlreadyExists(f'user "{name}" already exists', details={"name": name, "kind": "users"})
            accounts[name] = Account(name, str(uuid4()), bindings, groups, (kept,))
        return token

    def remove(self, name: str) -> None:
        """Removes a user; their tokens stop working at once."""
        with self._changing() as (accounts, _):
            _known(accounts, name)
            del accounts[name]

    def change(
        self, name: str, *, bindings: tuple[Binding, ...] | None = None, groups: tuple[str, ...] | None = None
    ) -> None:
        """Replaces the roles or the groups of a user; what is `None` stays."""
        _validate(name, bindings or (), groups or ())
        with self._changing() as (accounts, _):
            account = _known(accounts, name)
            accounts[name] = msgspec.structs.replace(
                account,
                bindings=account.bindings if bindings is None else bindings,
                groups=account.groups if groups is None else groups,
            )

    def add_group(self, name: str, bindings: tuple[Binding, ...]) -> None:
        """Adds a group with its roles; users who name it have them at once."""
        _validate(name, bindings, (), "Group")
        with self._changing() as (_, groups):
            if name in groups:
                raise AlreadyExists(f'group "{name}" already exists', details={"name": name, "kind": "groups"})
            groups[name] = Group(name, bindings)

    def change_group(self, name: str, bindings: tuple[Binding, ...]) -> None:
        _validate(name, bindings, (), "Group")
        with self._changing() as (_, groups):
            groups[_known_group(groups, name).name] = Group(name, bindings)

    def remove_group(self, name: str) -> None:
        """Takes the roles of a group away; users stay in it by name."""
        with self._changing() as (_, groups):
            del groups[_known_group(groups, name).name]

    def add_token(self, name: str, *, expires: datetime | None = None) -> str:
        """Creates another token for a user; the others keep working."""
        token, kept = self._new_token(expires)
        with self._changing() as (accounts, _):
            account = _known(accounts, name)
            accounts[name] = msgspec.structs.replace(account, tokens=(*account.tokens, kept))
        return token

    def add_session(self, name: str, *, of: str, expires: datetime) -> str:
        """Creates the token of a session; it ends with the token `of` it was opened with, and is never its own parent.

        A user has at most `MOST_SESSIONS`: the oldest make room.
        """
        token, kept = self._new_token(expires)
        with self._changing() as (accounts, _):
            account = _known(accounts, name)
            parent = next((one for one in account.tokens if one.id == of and not one.of), None)
            if parent is None:
                raise NotFound(f'user "{name}" has no token "{of}"', details={"name": of, "kind": "tokens"})
            ends = expires if parent.expires is None else min(expires, parent.expires)
            kept = msgspec.structs.replace(kept, of=of, expires=ends)
            accounts[name] = msgspec.structs.replace(account, tokens=(*self._with_room(account.tokens), kept))
        return token

    def _with_room(self, tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        """Tokens without the sessions that have expired or must make room for one more."""
        now = self._clock.now()
        live = [token for token in tokens if token.of and token.expires is not None and token.expires > now]
        kept = {token.id for token in live[-(MOST_SESSIONS - 1) :]}
        return tuple(token for token in tokens if not token.of or token.id in kept)

    def revoke(self, name: str, token_id: str) -> None:
        """Revokes one token of a user, by the id that `fairway users list` shows, and the sessions opened with it."""
        with self._changing() as (accounts, _):
            account = _known(accounts, name)
            remaining = tuple(token for token in account.tokens if token_id not in (token.id, token.of))
            if len(remaining) == len(account.tokens):
                raise NotFound(f'user "{name}" has no token "{token_id}"', details={"name": token_id, "kind": "tokens"})
            accounts[name] = msgspec.structs.replace(account, tokens=remaining)

    def _new_token(self, expires: datetime | None) -> tuple[str, Token]:
        token = new_token()
        return token, Token(secrets.token_hex(4), _digest(token), self._clock.now(), expires)

    def refresh(self) -> None:
        """Look whether the file has changed."""
        try:
            if self._signature() != self._seen:
                self._take(self._read())
        except (UsersFileBroken, OSError):
            _log.exception("cannot read the changed users file; using the previous users")

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._name)  # noqa: PTH116 - asked at every request, and three times as fast
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> _Content:
        self._seen = self._signature()
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return _Content({}, {})
        try:
            written = msgspec.json.decode(content, type=_Head).format
            if written > FORMAT:
                raise UsersFileBroken(
                    f"{self._path} has format {written}, this Fairway reads up to {FORMAT}; use a newer one"
                )
            found = msgspec.json.decode(content, type=_File)
            for account in found.users:
                _validate(account.name, account.bindings, account.groups)
            for group in found.groups:
                _validate(group.name, group.bindings, (), "Group")
        except (msgspec.MsgspecError, ValidationError, UnicodeDecodeError) as error:
            raise UsersFileBroken(f"{self._path} is not a users file: {error}") from error
        return _Content(
            {account.name: account for account in found.users}, {group.name: group for group in found.groups}
        )

    def _take(self, content: _Content) -> None:
        self.generation += 1
        self._accounts, self._groups = content
        self._by_hash = {
            token.sha256: (user, token)
            for account in content.accounts.values()
            for user in (account.as_user(content.groups),)
            for token in account.tokens
        }

    @contextmanager
    def _changing(self) -> Iterator[_Content]:
        """The file as it is now, to be changed in place; written when the block ends well."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self._read()
            yield content
            self._write(_File(FORMAT, _by_name(content.accounts), _by_name(content.groups)))
            self._take(self._read())
        finally:
            os.close(lock)

    def _write(self, content: _File) -> None:
        temporary = self._path.with_suffix(".new")  # one name is enough: the writer holds the lock
        temporary.unlink(missing_ok=True)
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def new_token() -> str:
    """256 random bits, in letters and digits; the beginning tells people and scanners for secrets what it is."""
    number = secrets.randbits(_TOKEN_BITS)
    digits = []
    for _ in range(_TOKEN_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "fw_" + "".join(reversed(digits))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _known(accounts: dict[str, Account], name: str) -> Account:
    if name not in accounts:
        raise NotFound(f'user "{name}" not found', details={"name": name, "kind": "users"})
    return accounts[name]


def _known_group(groups: dict[str, Group], name: str) -> Group:
    if name not in groups:
        raise NotFound(f'group "{name}" not found', details={"name": name, "kind": "groups"})
    return groups[name]


def _by_name(entries: dict[str, T]) -> tuple[T, ...]:
    return tuple(entry for _, entry in sorted(entries.items()))


def _validate(name: str, bindings: tuple[Binding, ...], groups: tuple[str, ...], kind: str = "User") -> None:
    rule = "must consist of letters, digits, '.', '_', '@' or '-', and start and end with a letter or digit"
    wrong = [
        FieldError(path, value, "FieldValueInvalid", f"{rule}; at most 128 characters")
        for path, value in (("name", name), *((f"groups[{index}]", group) for index, group in enumerate(groups)))
        if not _NAME.fullmatch(value)
    ]
    wrong += [
        FieldError(
            f"bindings[{index}].namespace",
            binding.namespace,
            "FieldValueInvalid",
            "must be the name of a namespace: lower-case letters, digits and '-', at most 63 characters",
        )
        for index, binding in enumerate(bindings)
        if binding.namespace is not None and not _NAMESPACE.fullmatch(binding.namespace)
    ]
    if wrong:
        raise ValidationError(kind, name, wrong)
