"""The people of one server, in the file `users.json` of its state directory.

The file holds hashes of tokens, never tokens: a token is shown once, when it is made. It is replaced as a whole, so a
reader sees the old or the new one and a crash leaves one of them; whoever changes it holds a lock, so changes by
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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import msgspec

from fairway.errors import AlreadyExists, FairwayError, FieldError, NotFound, ValidationError
from fairway.runtime.clock import Clock, SystemClock
from fairway.server.access.roles import AUTHENTICATED_GROUP, Binding, User

FORMAT = 1
FILE_NAME = "users.json"

_log = logging.getLogger(__name__)

_TOKEN_BITS = 256
_TOKEN_LENGTH = 43
"""As many digits to the base 62 as 256 bits need."""
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class UsersFileBroken(FairwayError):
    """The users file is not one that this version of Fairway can read; somebody has to look at it."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a token."""

    id: str
    sha256: str
    created: datetime
    expires: datetime | None = None


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person or program, with their roles and tokens."""

    name: str
    uid: str
    bindings: tuple[Binding, ...] = ()
    groups: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()

    def as_user(self) -> User:
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED_GROUP), self.bindings)


class _File(msgspec.Struct, frozen=True):
    format: int
    users: tuple[Account, ...] = ()


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
        self._by_hash: dict[str, tuple[User, Token]] = {}
        self.generation = 0
        """Another number whenever the users are others."""

        self._take(self._read())

    def find(self, token: str) -> User | None:
        """Whose token this is; `None` if it is nobody's, revoked or expired."""
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

    def add(
        self,
        name: str,
        bindings: tuple[Binding, ...],
        *,
        groups: tuple[str, ...] = (),
        expires: datetime | None = None,
    ) -> str:
        """Adds somebody and returns their first token, which is kept nowhere."""
        _validate(name, bindings, groups)
        token, kept = self._new_token(expires)
        with self._changing() as accounts:
            if name in accounts:
                raise AlreadyExists(f'user "{name}" already exists', details={"name": name, "kind": "users"})
            accounts[name] = Account(name, str(uuid4()), bindings, groups, (kept,))
        return token

    def remove(self, name: str) -> None:
        """Removes somebody; their tokens stop working at once."""
        with self._changing() as accounts:
            _known(accounts, name)
            del accounts[name]

    def set_bindings(self, name: str, bindings: tuple[Binding, ...]) -> None:
        _validate(name, bindings, ())
        with self._changing() as accounts:
            accounts[name] = msgspec.structs.replace(_known(accounts, name), bindings=bindings)

    def add_token(self, name: str, *, expires: datetime | None = None) -> str:
        """One more token for somebody; those they have keep working."""
        token, kept = self._new_token(expires)
        with self._changing() as accounts:
            account = _known(accounts, name)
            accounts[name] = msgspec.structs.replace(account, tokens=(*account.tokens, kept))
        return token

    def revoke(self, name: str, token_id: str) -> None:
        """Ends one token of somebody, by the id that `fairway users list` shows."""
        with self._changing() as accounts:
            account = _known(accounts, name)
            remaining = tuple(token for token in account.tokens if token.id != token_id)
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
            _log.exception("The users file has changed but cannot be read; the users known before still count")

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._name)  # noqa: PTH116 - asked at every request, and three times as fast
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> dict[str, Account]:
        self._seen = self._signature()
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            written = msgspec.json.decode(content, type=_Head).format
            if written > FORMAT:
                raise UsersFileBroken(
                    f"{self._path} has format {written}, this Fairway reads up to {FORMAT}; use a newer one"
                )
            accounts = msgspec.json.decode(content, type=_File).users
            for account in accounts:
                _validate(account.name, account.bindings, account.groups)
        except (msgspec.MsgspecError, ValidationError, UnicodeDecodeError) as error:
            raise UsersFileBroken(f"{self._path} is not a users file: {error}") from error
        return {account.name: account for account in accounts}

    def _take(self, accounts: dict[str, Account]) -> None:
        self.generation += 1
        self._accounts = accounts
        self._by_hash = {
            token.sha256: (user, token)
            for account in accounts.values()
            for user in (account.as_user(),)
            for token in account.tokens
        }

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Account]]:
        """The accounts as they are now, to be changed in place; written when the block ends well."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            accounts = self._read()
            yield accounts
            self._write(_File(FORMAT, tuple(sorted(accounts.values(), key=lambda account: account.name))))
            self._take(self._read())
        finally:
            os.close(lock)

    def _write(self, content: _File) -> None:
        temporary = self._path.with_suffix(".new")  # one name is enough: whoever writes holds the lock
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


def _validate(name: str, bindings: tuple[Binding, ...], groups: tuple[str, ...]) -> None:
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
        raise ValidationError("User", name, wrong)
