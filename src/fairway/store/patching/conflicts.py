"""Conflicts of server-side apply."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from fairway.errors import Conflict
from fairway.store.patching.fieldsets import Path, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldConflict:
    """One field, and one other manager who owns it."""

    path: Path
    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    """When that manager last wrote; empty if that is not known."""

    @property
    def field(self) -> str:
        """Where, as Kubernetes writes it: `.spec.replicas`."""
        return shown(self.path)

    @property
    def owner(self) -> str:
        """Who, as Kubernetes writes it: `"kubectl" with subresource "status" using batch/v1`."""
        words = json.dumps(self.manager, ensure_ascii=False)
        if self.subresource:
            words += f" with subresource {json.dumps(self.subresource, ensure_ascii=False)}"
        return f"{words} using {self.api_version}" if self.operation == "Update" else words


class ApplyConflict(Conflict):
    """Other managers own fields that the configuration sets to other values: force it, change it, or remove them."""

    def __init__(self, conflicts: Iterable[FieldConflict]) -> None:
        self.conflicts = tuple(conflicts)
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {conflict.owner}", "field": conflict.field}
            for conflict in self.conflicts
        ]
        super().__init__(_message(self.conflicts), details={"causes": causes})


def _message(conflicts: tuple[FieldConflict, ...]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].owner}: {conflicts[0].field}"
    fields_by_owner: dict[str, list[str]] = {}
    for conflict in conflicts:
        fields_by_owner.setdefault(conflict.owner, []).append(conflict.field)
    lines = []
    for owner, fields in fields_by_owner.items():
        lines += [f"conflicts with {owner}:", *(f"- {field}" for field in fields)]
    return f"Apply failed with {len(conflicts)} conflicts: {chr(10).join(lines)}"
