"""What happens to a managed job when it is created: it gets its number, its name and its user, and wrong ones are
refused before they are stored.
"""

from typing import Any, Final

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.gatekeeping import Author
from fairway.controllers.managedjob.ids import Ids
from fairway.controllers.managedjob.observation import JOBS
from fairway.errors import FieldError
from fairway.managedjobs.podconfig import wrong_part
from fairway.managedjobs.seeing import DEFAULT_CAP, DEFAULT_STEP
from fairway.managedjobs.tasks.parse import stored_tasks, wrong_tasks

_LONGEST_NAME: Final = 63
_GIVEN: Final = ("id", "user", "aging", "recover")
"""What the server adds to a job: whoever replaces one need not repeat it."""


class ManagedJobGatekeeper:
    """Keeps the contract of the store's `Gatekeeper`, for managed jobs alone."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._named: tuple[str, int] | None = None
        """The uid of the job that was given a name last, and its number."""

    def name_for(self, kind: Kind, manifest: Manifest) -> str:
        """`train-17`; a job that will be refused uses up no number."""
        if kind.resource != JOBS or not _has_tasks(manifest) or _wrong(manifest):
            return ""
        metadata = manifest["metadata"]
        number = self._ids.draw()
        self._named = metadata["uid"], number
        prefix: str = metadata["generateName"]
        return f"{prefix[: _LONGEST_NAME - len(str(number))]}{number}"

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:
        """Complete a new job in place; then what is wrong with it."""
        if kind.resource != JOBS or not _has_tasks(manifest):  # without them it is refused by the rules of the kind
            return []
        wrong = [*_wrong(manifest), *_wrong_user(manifest, author)]
        if wrong:
            return wrong
        spec = manifest["spec"]
        spec["id"] = self._number(manifest["metadata"]["uid"])
        if not spec.get("user") and author.name:
            spec["user"] = author.name
        spec.setdefault("recover", True)
        spec["aging"] = {"step": DEFAULT_STEP, "cap": DEFAULT_CAP, **(spec.get("aging") or {})}
        return []

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """Nothing to say before the merge."""

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:  # noqa: ARG002
        """Keep what the server gave; the rest is the kind's own rules."""
        if kind.resource == JOBS:
            before, after = old.get("spec") or {}, new.get("spec") or {}
            for name in _GIVEN:
                if name in before:
                    after.setdefault(name, before[name])
        return []

    def _number(self, uid: str) -> int:
        named, self._named = self._named, None
        return named[1] if named is not None and named[0] == uid else self._ids.draw()


def _has_tasks(manifest: Manifest) -> bool:
    return bool((manifest.get("spec") or {}).get("tasks"))


def _wrong(manifest: Manifest) -> list[FieldError]:
    spec: dict[str, Any] = manifest.get("spec") or {}
    wrong = wrong_tasks(manifest)
    if spec.get("podConfig"):
        wrong += wrong_part(spec["podConfig"], "spec.podConfig")
    if not wrong and any("config" in one for one in spec.get("tasks") or ()):
        for index, task in enumerate(stored_tasks(manifest)):
            wrong += wrong_part(task.pod_config, f"spec.tasks[{index}].config.kubernetes.pod_config")
    return wrong


def _wrong_user(manifest: Manifest, author: Author) -> list[FieldError]:
    named = (manifest.get("spec") or {}).get("user")
    if not named or named == author.name or author.speaks_for_others:
        return []
    rule = f"only an administrator may launch jobs for others; leave it out, and the job is {author.name}'s"
    return [FieldError("spec.user", named, "FieldValueForbidden", rule)]
