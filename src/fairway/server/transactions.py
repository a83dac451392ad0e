"""Transactions over HTTP: several writes in one request, all or none.

    POST …/namespaces/NS/transactions    {"spec": {"operations": [{"verb": "create", "manifest": {…}}, …]}}

Each operation is authorised and audited as the request that it stands for, and refused with that request's answer: its
code and reason, and `operation 3: …` before its words. What a transaction is, the store knows.

A transaction with `spec.idempotencyKey` that is sent again is answered with the results of the first time, and not
carried out again (`fairway.store.verbs.receipts`).
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.kind import Kind
from fairway.errors import (
    ApiError,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    OperationRefused,
    TooLarge,
    TooManyRequests,
    ValidationError,
)
from fairway.runtime.slices import Slice
from fairway.server import bodies
from fairway.server.access.audit import AuditEntry, AuditLog
from fairway.server.access.authorization import authorize
from fairway.server.limits import Limits
from fairway.server.reading import Streamed, joined
from fairway.server.requests import Request
from fairway.server.responses import status_of, warning_headers
from fairway.server.routes import ResourcePath
from fairway.store.entries import Entry
from fairway.store.verbs import DeleteOptions, Objects, WriteOptions, Written
from fairway.store.verbs.receipts import Once, Repeated
from fairway.store.verbs.transacting import MOST_OPERATIONS, CreateOperation, DeleteOperation, Operation, PatchOperation

KIND: Final = "Transaction"
_CODES: Final = {"create": 201, "patch": 200, "delete": 200}
_MOST_WARNINGS: Final = 20
_LONGEST_KEY: Final = 128
_MOST_PARTS: Final = 4_000_000
"""Brackets and commas in a body: each may be a value, which takes many times its room in memory."""

_FORMS: Final = (
    "an operation is {verb: create, manifest}, {verb: patch, apiVersion, kind, name, patch} or "
    "{verb: delete, apiVersion, kind, name}"
)


class _Create(msgspec.Struct, tag_field="verb", tag="create", forbid_unknown_fields=True):
    manifest: dict[str, Any]
    namespace: str = ""


class _Named(msgspec.Struct, tag_field="verb", rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Patch(_Named, tag="patch", kw_only=True):
    patch: dict[str, Any]


class _Delete(_Named, tag="delete", kw_only=True):
    propagation_policy: str = ""
    grace_period_seconds: int | None = None


_Written: TypeAlias = _Create | _Patch | _Delete


class _Spec(msgspec.Struct, rename="camel"):
    operations: list[msgspec.Raw]
    idempotency_key: Any = None


class _Body(msgspec.Struct, rename="camel"):
    spec: _Spec
    api_version: Any = "fairway.dev/v1alpha1"
    kind: Any = KIND


class _Step(NamedTuple):
    """An operation as the request that it stands for."""

    verb: str
    kind: Kind
    version: str
    namespace: str
    name: str
    operation: Operation


class Transactions:
    """Keeps the contract of `VirtualResource`."""

    def __init__(self, objects: Objects, audit: AuditLog, limits: Limits) -> None:
        self._objects = objects
        self._audit = audit
        self._limits = limits
        self._under_way = 0

    def verb(self, request: Request, where: ResourcePath) -> str:
        if not where.namespace or where.name:
            raise NotFound(
                "the server could not find the requested resource: transactions go to namespaces/NS/transactions"
            )
        if request.method != "POST":
            raise MethodNotAllowed(f"transactions support POST, not {request.method}: they are not stored")
        return "create"

    async def answer(self, request: Request, where: ResourcePath) -> Streamed:
        if self._under_way >= self._limits.transactions:
            raise TooManyRequests(f"{self._limits.transactions} transactions are in progress; try again in a second")
        self._under_way += 1
        try:
            return await self._execute(request, where)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """None takes long."""

    async def _execute(self, request: Request, where: ResourcePath) -> Streamed:
        started, work = time.perf_counter(), self._objects.slices.begin()
        options = bodies.write_options(request)
        body = bodies.some(await request.body(self._limits.transaction_bytes))
        _check_parts(body)
        parsed = _parsed(request, body)
        operations = _operations(parsed, where)
        once = None if options.dry_run else _once(parsed, body, request, where)
        del body, parsed
        steps: list[_Step] = []
        allowed = False
        try:
            for number, given in enumerate(operations, 1):
                steps.append(self._understood(number, given, where))
                _authorize(number, steps[-1], request)
                if work.is_over:
                    await work.pause()
            del operations
            allowed = True
            earlier = self._objects.receipts.results(once) if once is not None else None
            if earlier is not None:
                return await self._replay(where, steps, earlier, work)
            written = await self._objects.transact([step.operation for step in steps], options, once)
        except Repeated as repeated:  # by a request that came while this one was decided
            return await self._replay(where, steps, repeated.results, work)
        except OperationRefused as refused:
            # Perhaps because the same transaction has been carried out while this one was decided.
            earlier = self._objects.receipts.results(once) if once is not None and allowed else None
            if earlier is not None:
                return await self._replay(where, steps, earlier, work)
            if len(steps) >= refused.number:
                code = status_of(refused, self._objects.registry)["code"]
                self._record(request, steps[refused.number - 1], code, None, options, started)
            raise
        results = list(zip(steps, written, strict=True))
        for step, one in results:
            self._record(request, step, _CODES[step.verb], one, options, started)
            if work.is_over:
                await work.pause()
        return self._results(where, results, work)

    def _understood(self, number: int, given: object, where: ResourcePath) -> _Step:
        try:
            return self._step(_read(given), where)
        except (ApiError, ValidationError) as error:
            raise OperationRefused(number, error) from error

    def _step(self, given: _Written, where: ResourcePath) -> _Step:
        if isinstance(given, _Create):
            return self._creation(given, where)
        kind, version = self._kind(given.api_version, given.kind)
        namespace = (given.namespace or where.namespace) if kind.namespaced else ""
        if not given.name:
            raise BadRequest("name: Required value: the name of the object")
        key = (namespace, given.name)
        if isinstance(given, _Patch):
            patch = _with_preconditions(given)
            return _Step("patch", kind, version, *key, PatchOperation(kind, version, key, patch))
        options = DeleteOptions(
            uid=given.uid,
            resource_version=given.resource_version,
            propagation=given.propagation_policy,
            grace_seconds=given.grace_period_seconds,
        )
        return _Step("delete", kind, version, *key, DeleteOperation(kind, key, options))

    def _creation(self, given: _Create, where: ResourcePath) -> _Step:
        manifest = given.manifest
        kind, version = self._kind(manifest.get("apiVersion"), manifest.get("kind"))
        metadata = manifest.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        inside = given.namespace or named.get("namespace") or where.namespace
        name = named.get("name") or ""
        if not isinstance(inside, str) or not isinstance(name, str):
            raise BadRequest("metadata.name and metadata.namespace must be strings")
        namespace = inside if kind.namespaced else ""
        return _Step("create", kind, version, namespace, name, CreateOperation(kind, version, namespace, manifest))

    def _kind(self, api_version: object, kind: object) -> tuple[Kind, str]:
        found = None
        if isinstance(api_version, str) and isinstance(kind, str):
            found = self._objects.registry.by_api_version(api_version, kind)
        if found is None:
            raise NotFound(f"there is no kind {kind!s:.80} in {api_version!s:.80}: see `kubectl api-resources`")
        group, _, version = str(api_version).rpartition("/")
        return found, found.version_in(group, version)

    def _record(
        self,
        request: Request,
        step: _Step,
        code: int,
        written: Written | None,
        options: WriteOptions,
        started: float,
    ) -> None:
        stored = written is not None and not options.dry_run
        self._audit.record(
            AuditEntry(
                time=self._objects.now(),
                user=request.user.name,
                verb=step.verb,
                group=step.kind.group,
                resource=step.kind.plural,
                code=code,
                namespace=step.namespace,
                name=written.entry.name if written is not None else step.name,
                source=request.client,
                dry_run=options.dry_run,
                resource_version=str(written.entry.revision) if stored and written is not None else "",
                duration=round(time.perf_counter() - started, 6),
            )
        )

    async def _replay(
        self, where: ResourcePath, steps: Sequence[_Step], results: Sequence[tuple[str, str, str] | None], work: Slice
    ) -> Streamed:
        """The objects of an earlier transaction with the same key, as they are now; `null` for those that are gone."""
        await self._objects.store.settled()  # the earlier one may still be on its way to the disk
        found = []
        for step, result in zip(steps, results, strict=True):
            entry = self._objects.store.get(step.kind.resource, result[:2]) if result is not None else None
            if entry is None or result is None or entry.meta.uid != result[2]:
                gone = Entry(step.kind.resource, (step.namespace, step.name), 0, b"{}")
                found.append((step, Written(gone, removed=True)))
            else:
                found.append((step, Written(entry)))
        return self._results(where, found, work, code=200)

    def _results(
        self, where: ResourcePath, results: Sequence[tuple[_Step, Written]], work: Slice, *, code: int = 201
    ) -> Streamed:
        head = {
            "apiVersion": f"{where.group}/{where.version}",
            "kind": KIND,
            "metadata": {"namespace": where.namespace},
            "status": {"results": []},
        }

        def encoded(result: tuple[_Step, Written]) -> bytes:
            step, one = result
            return b"null" if one.removed else self._objects.rendered(step.kind, one.entry, step.version)

        warnings = warning_headers(_warnings([one for _, one in results]))
        return Streamed(joined(head, results, encoded, work, b"]}}"), code=code, headers=warnings)


def _parsed(request: Request, body: bytes) -> Any:
    """The transaction in the body; the operations of a JSON text are read later, one by one."""
    if request.content_type in {"application/json", ""}:
        try:
            found = msgspec.json.decode(body, type=_Body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return bodies.parsed(request.content_type, body)  # says what is wrong
        spec = {"operations": found.spec.operations, "idempotencyKey": found.spec.idempotency_key}
        return {"apiVersion": found.api_version, "kind": found.kind, "spec": spec}
    return bodies.parsed(request.content_type, body)


def _check_parts(body: bytes) -> None:
    if sum(map(body.count, (b"{", b"[", b","))) > _MOST_PARTS:
        raise TooLarge(f"the transaction has more than {_MOST_PARTS} values; send it in several parts")


def _operations(body: Any, where: ResourcePath) -> list[Any]:
    """The list in a transaction, whatever is in it."""
    expected = f"{where.group}/{where.version}"
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be a {KIND} object")
    if body.get("apiVersion", expected) != expected or body.get("kind", KIND) != KIND:
        raise BadRequest(
            f"the object in the body ({body.get('apiVersion')!s:.80}, {body.get('kind')!s:.80}) is not of the kind "
            f"that the path asks for ({expected}, {KIND})"
        )
    spec = body.get("spec")
    operations = spec.get("operations") if isinstance(spec, dict) else None
    if not isinstance(operations, list):
        raise BadRequest(f"spec.operations: Required value: a list; {_FORMS}")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            f"spec.operations: Too many: {len(operations)}: a transaction has at most {MOST_OPERATIONS} operations; "
            "send several"
        )
    return operations


def _once(body: dict[str, Any], data: bytes, request: Request, where: ResourcePath) -> Once | None:
    """The key of a transaction, if it has one: it counts for one user in one namespace, and for one request."""
    key = body["spec"].get("idempotencyKey")
    if key is None:
        return None
    if not isinstance(key, str) or not 16 <= len(key) <= _LONGEST_KEY or not key.isprintable():
        raise BadRequest(
            f"spec.idempotencyKey: Invalid value: must be 16 to {_LONGEST_KEY} printable characters, random for each "
            "transaction"
        )
    name = hashlib.sha256("\0".join((request.user.name, where.namespace, key)).encode()).hexdigest()
    return Once(name, hashlib.sha256(data).hexdigest())


def _read(given: object) -> _Written:
    if isinstance(given, msgspec.Raw):
        given = from_json(bytes(given))
    try:
        operation: _Written = msgspec.convert(given, _Written)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{str(error).replace('`$.', '`')}: {_FORMS}") from None
    return operation


def _with_preconditions(given: _Patch) -> dict[str, Any]:
    """The patch with what it asks of the object, where the store looks for it."""
    preconditions = {"uid": given.uid, "resourceVersion": given.resource_version}
    asked = {name: value for name, value in preconditions.items() if value}
    metadata = given.patch.get("metadata", {})
    if not asked or not isinstance(metadata, dict):
        return given.patch
    return {**given.patch, "metadata": {**metadata, **asked}}


def _authorize(number: int, step: _Step, request: Request) -> None:
    try:
        authorize(
            request.user,
            verb=step.verb,
            group=step.kind.group,
            resource=step.kind.plural,
            namespace=step.namespace,
            name=step.name,
        )
    except ApiError as error:
        raise OperationRefused(number, error) from error


def _warnings(written: Sequence[Written]) -> list[str]:
    """The first few, each with the operation that it is about."""

    def found() -> Iterator[str]:
        for number, one in enumerate(written, 1):
            yield from (f"operation {number}: {warning}" for warning in one.warnings)

    return [warning for warning, _ in zip(found(), range(_MOST_WARNINGS), strict=False)]
