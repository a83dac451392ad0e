"""What happens to a managed job when it is created: it gets its number, its name and its user, and wrong ones are
refused before they are stored.
"""

from typing import Any, Final

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.managedjob.ids import Ids
from fairway.controllers.managedjob.observe import JOBS
from fairway.errors import FieldError
from fairway.managedjobs.observation import DEFAULT_CAP, DEFAULT_STEP
from fairway.managedjobs.podconfig import wrong_part
from fairway.managedjobs.tasks.parse import stored_tasks, wrong_tasks

_LONGEST_NAME: Final = 63
_GIVEN: Final = ("id", "user", "aging", "recover")
"""What the server adds to a job: whoever replaces one need not repeat it."""


class ManagedJobAdmission:
    """Gives a new job its number, name, user and aging; a job that is refused uses up no number."""

    resources: Final = (JOBS,)

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        manifest, user = request.object, request.user
        spec: dict[str, Any] = manifest.get("spec") or {}
        if request.old is not None:
            before = request.old.get("spec") or {}
            for name in _GIVEN:
                if name in before:
                    spec.setdefault(name, before[name])
            return ALLOWED
        if not spec.get("tasks"):  # refused by the rules of the kind
            return ALLOWED
        wrong = [*_wrong(manifest), *_wrong_user(manifest, user)]
        if wrong or not request.mutating:
            return AdmissionResponse(wrong)
        number = self._ids.highest + 1 if request.dry_run else self._ids.draw()
        spec["id"] = number
        if not spec.get("user") and user.name:
            spec["user"] = user.name
        spec.setdefault("recover", True)
        spec["aging"] = {"step": DEFAULT_STEP, "cap": DEFAULT_CAP, **(spec.get("aging") or {})}
        metadata = manifest["metadata"]
        if not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName'][: _LONGEST_NAME - len(str(number))]}{number}"
        return ALLOWED


def _wrong(manifest: Manifest) -> list[FieldError]:
    spec: dict[str, Any] = manifest.get("spec") or {}
    wrong = wrong_tasks(manifest)
    if spec.get("podConfig"):
        wrong += wrong_part(spec["podConfig"], "spec.podConfig")
    if not wrong and any("config" in one for one in spec.get("tasks") or ()):
        for index, task in enumerate(stored_tasks(manifest)):
            wrong += wrong_part(task.pod_config, f"spec.tasks[{index}].config.kubernetes.pod_config")
    return wrong


def _wrong_user(manifest: Manifest, user: UserInfo) -> list[FieldError]:
    named = (manifest.get("spec") or {}).get("user")
    if not named or named == user.name or user.can_impersonate:
        return []
    rule = f"only administrators may set another user; remove it to launch the job as {user.name}"
    return [FieldError("spec.user", named, "FieldValueForbidden", rule)]
