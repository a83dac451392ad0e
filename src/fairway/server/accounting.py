"""The history over HTTP: read-only, summed up when it is asked for.

    GET …[/namespaces/NS]/usage        what was held, by user, queue, team, organization or flavor, over time
    GET …[/namespaces/NS]/attempts     the attempts of jobs, newest first

The books are those of the accounting controller of this process, else what it stored. Parameters: `accounting.reports`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from fairway.accounting import reports
from fairway.accounting.books import AccountBooks
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, MethodNotAllowed, NotFound
from fairway.server.requests import Request
from fairway.server.responses import Response
from fairway.server.routes import ResourcePath
from fairway.server.virtual import ObjectView, rendered
from fairway.server.waitingjobs import GROUP, VERSION

_ATTEMPT_COLUMNS: Final = (
    custom_column("Job", ".job.name", description="The job."),
    custom_column("Attempt", ".attempt", "integer", description="Its number."),
    custom_column("User", ".user", description="Who created the job."),
    custom_column("Queue", ".queue", description="The LocalQueue that it waited in."),
    custom_column("Outcome", ".outcome", description="How it ended."),
    custom_column("Waited", ".waitSeconds", "integer", description="Seconds in the queue."),
    custom_column("Ran", ".runSeconds", "integer", description="Seconds from its admission to its end."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it started."),
)
_USAGE_COLUMNS: Final = (
    custom_column("CPU-Hours", ".hours.cpu", "number", description="Cores times hours."),
    custom_column("Memory-GiB-Hours", ".hours.memory", "number", description="GiB times hours."),
    custom_column("GPU-Hours", ".gpuHours", "number", description="GPUs times hours."),
    custom_column("Started", ".started", "integer", description="Attempts that started."),
    custom_column("Succeeded", ".succeeded", "integer", description="Attempts that succeeded."),
    custom_column("Failed", ".failed", "integer", description="Attempts that failed."),
    custom_column("Preempted", ".preempted", "integer", description="Attempts that were preempted."),
)

BooksSource = Callable[[], AccountBooks | None]
"""The books of this process; `None` if they are not kept here."""


class Accounting:
    """Keeps the contract of `VirtualResource`, for `usage` and for `attempts`."""

    def __init__(self, view: ObjectView, books: BooksSource, resource: str, group: str = GROUP) -> None:
        self._view = view
        self._books = books
        is_usage = resource == "usage"
        self._kind = Kind(
            group=group,
            kind="UsageReport" if is_usage else "Attempt",
            plural=resource,
            versions=(VERSION,),
            stored=VERSION,
            schemas={},
            columns={VERSION: _USAGE_COLUMNS if is_usage else _ATTEMPT_COLUMNS},
        )

    def verb(self, request: Request, where: ResourcePath) -> str:
        if where.subresource or where.name:
            raise NotFound(f"{where.resource} is a list; select with the query")
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(f"the history can only be read, not changed with {request.method}")
        return "list"

    async def answer(self, request: Request, where: ResourcePath) -> Response:
        if request.query.get("watch") not in {None, "", "0", "false"}:
            raise BadRequest("watch: Forbidden: the history is summed up for each request")
        said = {name: value for name, value in request.query.items() if name not in {"watch", "includeObject"}}
        books = await self._current()
        now = int(self._view.now().timestamp())
        header = {"apiVersion": self._kind.api_version(VERSION)}
        if self._kind.plural == "usage":
            found = reports.usage(books, reports.usage_query(said, now), where.namespace, now)
            rows = [_named(item, found["by"], where.namespace) for item in found["items"]]
            whole = {**header, "kind": self._kind.kind, "metadata": {}, **found}
            return rendered(self._view, request, self._kind, rows, whole)
        items: list[Manifest] = []
        token = ""
        async for item in _turns(reports.attempts(books, reports.attempt_query(said, now), where.namespace, now)):
            if isinstance(item, str):
                token = item
            else:
                items.append({**header, "kind": "Attempt", **item})
        metadata = {"resourceVersion": self._view.revision, **({"continue": token} if token else {})}
        whole = {**header, "kind": "AttemptList", "metadata": metadata, "items": items}
        return rendered(self._view, request, self._kind, items, whole)

    def close(self) -> None:
        """None takes long."""

    async def _current(self) -> AccountBooks:
        books = self._books()
        if books is None:
            books = AccountBooks()
            for _ in books.load(self._view.all("configmaps")):
                await asyncio.sleep(0)
        return books


def _named(item: Manifest, by: list[str], namespace: str) -> Manifest:
    """A row as `kubectl get` needs it."""
    name = "/".join(item[one] or "-" for one in by) or "all"
    return {**item, "metadata": {"name": name, "namespace": namespace, "creationTimestamp": item["start"]}}


async def _turns(items: "reports.Items") -> AsyncIterator[Manifest | str]:
    """The items; others have their turn where there is a pause."""
    for item in items:
        if item is None:
            await asyncio.sleep(0)
        else:
            yield item
