"""What the installed controller asked of kube-apiserver, by the audit log, compared with its rights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fairway.deploy.names import Way
from fairway.deploy.permissions import Permission, permissions


class Use(NamedTuple):
    """One kind of request."""

    verb: str
    group: str
    resource: str
    """With its subresource: `pods/log`."""

    namespace: str = ""
    name: str = ""


class Audit:
    """The requests since it was made."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._begin = log.stat().st_size if log.exists() else 0

    def events(self) -> Iterator[dict[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(self._begin)
            for line in log:
                yield json.loads(line)

    def forbidden(self) -> set[str]:
        """Requests that were refused for want of a right."""
        return {
            f"{event['verb']} {event['requestURI']}"
            for event in self.events()
            if (event.get("responseStatus") or {}).get("code") == 403
        }

    def uses(self) -> set[Use]:
        found = set()
        for event in self.events():
            about = event.get("objectRef")
            if about and about.get("resource"):
                resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
                place = (about.get("namespace", ""), about.get("name", ""))
                found.add(Use(event["verb"], about.get("apiGroup", ""), resource, *place))
        return found


def unused(way: Way, uses: set[Use]) -> set[str]:
    """The rights that no request used: `verb resource.group`, with the namespace of a Role and the one name."""
    return {
        f"{verb} {resource}{f'.{row.group}' if row.group else ''}{f' in {row.namespace}' if row.namespace else ''}"
        for row in permissions(way)
        for resource in row.resources
        for verb in row.verbs
        if not any(_covers(row, resource, verb, use) for use in uses)
    }


def _covers(row: Permission, resource: str, verb: str, use: Use) -> bool:
    return (
        (use.verb, use.group, use.resource) == (verb, row.group, resource)
        and row.namespace in {"", use.namespace}
        and (not row.names or use.name in row.names)
    )
