"""The files that an attempt of a managed job left in its working directory, over HTTP.

    GET …/managedjobs/NAME/files              a list: paths, sizes, times
    GET …/managedjobs/NAME/files?format=tar   the files themselves

Which attempt is said by `task`, `attempt` and `rank`, as for a log; `path` names a file or a directory of it. No
symbolic link is followed, so nothing leads out of the working directory, also while the job still changes it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.errors import BadRequest, NotFound
from fairway.server.http import Exchange
from fairway.server.joblogs import Wanted, chosen
from fairway.server.limits import Limits
from fairway.server.podlogs import Logs
from fairway.server.requests import Request
from fairway.server.responses import Response, encode
from fairway.server.routes import Route
from fairway.server.streaming import stream
from fairway.server.threads import in_thread
from fairway.server.trees import NoSuchPath, Tree
from fairway.settings import RESULTS_NOTE
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import readable

MOST_LISTED: Final = 10_000

_TAR: Final = b"application/x-tar"


async def job_files(
    objects: Objects,
    request: Request,
    route: Route,
    logs: Logs,
    limits: Limits,
    start: Callable[[], None],
) -> Response | None:
    """Answer with a list, or send a tar archive; `start` is called right before its first byte."""
    form = request.query.get("format", "")
    if form not in ("", "tar"):
        raise BadRequest(f"format: Unsupported value: {form[:80]!r}: supported: tar; default: a list")
    wanted = Wanted(request.number("task"), request.number("attempt"), request.number("rank") or 0, "run", follow=False)
    job = readable(objects.get(route.kind, route.namespace, route.name))
    pod = chosen(objects, job, wanted)
    path = request.query.get("path", "")
    uid = pod.uid if pod is not None else ""
    try:
        tree = await in_thread(Tree.open, logs.state / "work" / (uid or "-"), path)
    except FileNotFoundError:
        tree = None
    except NoSuchPath as error:
        raise NotFound(str(error)) from None
    if tree is None:
        if path or form:
            raise NotFound(_removed(logs.state, route.namespace, uid) or f"job {route.name} has no files")
        return Response(200, encode(_listed(route, [], note=_removed(logs.state, route.namespace, uid))))
    if not form:
        items, truncated = await in_thread(tree.listed, MOST_LISTED)
        return Response(200, encode(_listed(route, items, truncated=truncated)))
    start()
    request.exchange.start(200, _TAR)
    await stream(request.exchange, _sent(tree, limits, request.exchange))
    return None


async def _sent(tree: Tree, limits: Limits, exchange: Exchange) -> None:
    pieces = tree.tar()
    try:
        while piece := await in_thread(next, pieces, b""):
            await exchange.send(piece, limits.send_seconds)
    finally:
        pieces.close()


def _removed(state: Path, namespace: str, uid: str) -> str:
    """Why files that there were are gone; empty if there were none."""
    try:
        note = msgspec.json.decode((state / "logs" / namespace / (uid or "-") / RESULTS_NOTE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return ""
    return str(note.get("removed") or "") if isinstance(note, dict) else ""


def _listed(route: Route, items: list[dict[str, Any]], *, truncated: bool = False, note: str = "") -> dict[str, Any]:
    files = [one for one in items if one["type"] == "file"]
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "JobFileList",
        "metadata": {"name": route.name, "namespace": route.namespace},
        "items": items,
        "files": len(files),
        "bytes": sum(one["bytes"] for one in files),
        "truncated": truncated,
        "note": note,
    }
