"""The containers of a task's pod, and parts of them that both platforms have."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs import scripts
from fairway.managedjobs.podconfig import required_terms
from fairway.managedjobs.tasks.task import Files, Task

FILES: Final = "files"
SETUP: Final = "setup"


def containers_of(spec: Manifest) -> dict[str, Manifest]:
    """All containers by name, ours last: where a `pod_config` has one of the same name, it is not ours."""
    return {one["name"]: one for one in (*(spec.get("initContainers") or ()), *spec["containers"])}


def beside(main: Manifest, name: str, fields: tuple[str, ...]) -> Manifest:
    """A container that shares these fields with the main one."""
    shared: Manifest = copied({field: main[field] for field in fields if field in main})
    return {"name": name} | shared


def target(files: Files, task: Task) -> str:
    """Where files are unpacked: an absolute path, or one below the working directory."""
    home = task.envs.get("HOME", scripts.OWN_HOME)
    return home + files.path.removeprefix("~") if files.is_at_home else files.path


def require_accelerator(spec: Manifest, labels: Mapping[str, Sequence[str]], or_without: str = "") -> None:
    """Add a node affinity: any of the labels with any of its values, or a node without the label `or_without`."""
    terms: list[Manifest] = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": list(dict.fromkeys(values))}]}
        for key, values in labels.items()
        if values
    ]
    if or_without:
        terms.append({"matchExpressions": [{"key": or_without, "operator": "DoesNotExist"}]})
    required = (
        spec.setdefault("affinity", {})
        .setdefault("nodeAffinity", {})
        .setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    required["nodeSelectorTerms"] = required_terms(required.get("nodeSelectorTerms") or [], terms)
