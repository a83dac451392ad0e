"""What a request for logs asks for, and whether the pod can have it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fairway.errors import BadRequest, FieldError, ValidationError
from fairway.runtime.logformat import Stream

Manifest = Mapping[str, object]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_STREAMS: dict[str, Stream | None] = {"All": None, "Stdout": "stdout", "Stderr": "stderr"}
_PULLING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a container's log, and in which form."""

    container: str | None = None
    previous: bool = False
    """The log of the time before the last start."""

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: Stream | None = None


def parse_options(query: Mapping[str, str], pod: str) -> LogOptions:
    """The options in a query string; parameters that are no options are passed over, as kube-apiserver does."""
    since_time = query.get("sinceTime")
    tail_lines = _integer(query.get("tailLines"))
    limit_bytes = _integer(query.get("limitBytes"))
    since_seconds = _integer(query.get("sinceSeconds"))
    stream = query.get("stream") or "All"
    wrong = [
        FieldError(path, value, "FieldValueInvalid", f"must be greater than {'or equal to ' * (least == 0)}0")
        for path, value, least in (
            ("tailLines", tail_lines, 0),
            ("limitBytes", limit_bytes, 1),
            ("sinceSeconds", since_seconds, 1),
        )
        if value is not None and value < least
    ]
    if since_time and since_seconds is not None:
        message = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        wrong.append(FieldError("sinceSeconds", since_seconds, "FieldValueForbidden", message))
    if stream not in _STREAMS:
        expected = ", ".join(json.dumps(each) for each in _STREAMS)
        wrong.append(FieldError("stream", stream, "FieldValueNotSupported", f"supported values: {expected}"))
    elif stream != "All" and tail_lines is not None:
        message = "may not be specified together with a single `stream`"
        wrong.append(FieldError("tailLines", tail_lines, "FieldValueForbidden", message))
    if wrong:
        raise ValidationError("PodLogOptions", pod, wrong)
    return LogOptions(
        container=query.get("container") or None,
        previous=_flag(query.get("previous")),
        follow=_flag(query.get("follow")),
        tail_lines=tail_lines,
        since_seconds=since_seconds,
        since_time=_time(since_time) if since_time else None,
        timestamps=_flag(query.get("timestamps")),
        limit_bytes=limit_bytes,
        stream=_STREAMS[stream],
    )


def choose_container(pod: Manifest, container: str | None) -> str:
    """The requested container: the one named, or the only one."""
    name = _name(pod)
    if container:
        if container not in _container_names(pod, "initContainers", "containers", "ephemeralContainers"):
            raise BadRequest(f"container {container} is not valid for pod {name}")
        return container
    main = _container_names(pod, "containers")
    if len(main) == 1:
        return main[0]
    choice = " ".join(_container_names(pod, "initContainers", "containers", "ephemeralContainers"))
    raise BadRequest(
        f"a container name must be specified for pod {name}" + (f", choose one of: [{choice}]" if main else "")
    )


def choose_restart(pod: Manifest, container: str, *, previous: bool) -> int | None:
    """The requested start of the container, by its `restartCount`; `None` if the pod has no node yet.

    Raises `BadRequest` if there is no log because the container has not run, or not before.
    """
    if not _map(pod.get("spec")).get("nodeName"):
        return None
    status = _container_status(pod, container)
    what = f'container "{container}" in pod "{_name(pod)}"'
    if status is None:
        raise BadRequest(f"{what} is not available")
    state, last = _map(status.get("state")), _map(status.get("lastState"))
    count = status.get("restartCount")
    restart = count if isinstance(count, int) else 0
    ran = "running" in state or "terminated" in state
    if previous:
        if "terminated" not in last:
            raise BadRequest(f"previous terminated {what} not found")
        return max(0, restart - 1) if ran else restart
    if ran or "terminated" in last:
        return restart
    if "waiting" in state:
        reason = str(_map(state["waiting"]).get("reason") or "")
        raise BadRequest(f"{what} is waiting to start: {_PULLING.get(reason, reason)}")
    raise BadRequest(f"{what} is waiting to start - no logs yet")


def _container_status(pod: Manifest, container: str) -> Manifest | None:
    status = _map(pod.get("status"))
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for entry in _list(status.get(key)):
            if _map(entry).get("name") == container:
                return _map(entry)
    return None


def _container_names(pod: Manifest, *keys: str) -> list[str]:
    spec = _map(pod.get("spec"))
    return [str(_map(entry).get("name")) for key in keys for entry in _list(spec.get(key))]


def _name(pod: Manifest) -> str:
    return str(_map(pod.get("metadata")).get("name", ""))


def _map(value: object) -> Manifest:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _flag(text: str | None) -> bool:
    """As Kubernetes reads flags: whatever is there and does not say no means yes."""
    return text is not None and text.lower() not in ("0", "false")


def _integer(text: str | None) -> int | None:
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f"strconv.ParseInt: parsing {json.dumps(text)}: invalid syntax")
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise BadRequest(f"strconv.ParseInt: parsing {json.dumps(text)}: value out of range")
    return int(text)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text) if "T" in text else None
        moment = found.astimezone(UTC) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise BadRequest(f"parsing time {json.dumps(text)}: must look like 2026-11-16T08:30:00Z")
    return moment
