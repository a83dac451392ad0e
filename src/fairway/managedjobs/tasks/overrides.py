"""Overrides of a task by the command line.

It is laid over the document before anything is read, so that a wrong flag is found by the same reader as a wrong field,
and is named as the flag that it is. `none` takes back what the file says.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field, structs

from fairway.managedjobs.tasks.documents import Document
from fairway.managedjobs.tasks.envs import checked_name
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import Mark, Path, SourceMap, Where

NOTHING: Final = "none"

_RESOURCES: Final = {
    "cpus": ("--cpus", ("cpus",)),
    "memory": ("--memory", ("memory",)),
    "gpus": ("--gpus", ("accelerators",)),
    "infra": ("--infra", ("infra", "cloud", "region", "zone")),
    "image_id": ("--image-id", ("image_id",)),
    "disk_size": ("--disk-size", ("disk_size",)),
    "max_duration": ("--max-duration", ("max_duration",)),
}
"""The flag of an override, and the fields that it stands for, the first of them being where it goes."""

_ASSIGNMENT: Final = re.compile(r"(?:export\s+)?([^=\s]+)\s*=\s*(.*)", re.DOTALL)


class Overrides(Struct, frozen=True, kw_only=True):
    """The flags of a launch; empty where nothing was said."""

    name: str = ""
    cluster: str = ""
    """The name of the job itself, not only what it is shown as: `launch -c NAME`."""

    num_nodes: int | None = None
    cpus: str = ""
    memory: str = ""
    gpus: str = ""
    infra: str = ""
    image_id: str = ""
    disk_size: str = ""
    max_duration: str = ""
    job_recovery: str = ""
    workdir: str = ""
    envs: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    priority: int | str | None = None
    """A number, the name of a class, or `none`."""

    queue: str = ""
    num_jobs: int = 1
    recover: bool = True
    hold: bool = False
    user: str = ""

    def __repr__(self) -> str:
        """What was said, without the values of secrets."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        given["secrets"] = list(self.secrets)
        return f"Overrides({', '.join(f'{name}={value!r}' for name, value in given.items() if value)})"


def laid_over(document: Document, overrides: Overrides) -> Document:
    """The document as the command line wants it."""
    if overrides == Overrides():
        return document
    value = dict(document.value)
    flags: dict[Path, str] = {}
    if overrides.num_nodes is not None:
        value["num_nodes"] = overrides.num_nodes
        flags[("num_nodes",)] = "--num-nodes"
    if overrides.workdir.lower() == NOTHING:
        value.pop("workdir", None)
    elif overrides.workdir:
        value["workdir"] = overrides.workdir
        flags[("workdir",)] = "--workdir"
    if _is_map(value.get("resources")):
        value["resources"] = _resources(value.get("resources") or {}, overrides, flags)
    if overrides.max_duration:
        value.pop("max_duration", None)
    _variables(value, document, overrides, flags)
    return structs.replace(document, value=value, source=document.source.with_flags(flags))


def env_pair(text: str, flag: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that `--env NAME=value` gives; `--env NAME` copies the one of the shell."""
    name, equals, value = text.partition("=")
    checked_name(name, _flag(flag))
    if equals:
        return name, value
    if name not in environ:
        raise TaskError(f"{name} is not set here; pass {flag} {name}=…", field=flag)
    return name, environ[name]


def env_file(text: str, file: str) -> dict[str, str]:
    """The variables of a file of `NAME=value` lines, as `--env-file` takes it. No error quotes a value."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(content)
        if not match:
            raise TaskError("this line is not NAME=value; write one variable a line", file=file, line=number)
        checked_name(match[1], _at_line(file, number))
        found[match[1]] = _unquoted(match[2], file, number)
    return found


def _resources(given: dict[str, Any], overrides: Overrides, flags: dict[Path, str]) -> dict[str, Any]:
    said = {name: getattr(overrides, name) for name in _RESOURCES if getattr(overrides, name)}
    gone = {one for name in said for one in _RESOURCES[name][1]}
    if overrides.priority is not None:
        gone |= {"priority", "priority_class"}
    result = _without(given, gone, overrides.labels)
    for name in ("any_of", "ordered"):
        if type(result.get(name)) is list:
            result[name] = [_without(one, gone, overrides.labels) if type(one) is dict else one for one in result[name]]
    for name, value in said.items():
        flag, fields = _RESOURCES[name]
        if value.lower() != NOTHING:
            result[fields[0]] = value
            flags[("resources", fields[0])] = flag
    if overrides.job_recovery:
        old = result.get("job_recovery")
        new = overrides.job_recovery
        result["job_recovery"] = {**old, "strategy": new} if type(old) is dict else new
        flags[("resources", "job_recovery")] = "--job-recovery"
    return result


def _without(block: dict[str, Any], gone: set[str], labels: dict[str, str]) -> dict[str, Any]:
    result = {name: one for name, one in block.items() if name not in gone}
    if labels and _is_map(result.get("labels")):
        result["labels"] = {**(result.get("labels") or {}), **labels}
    return result


def _variables(value: dict[str, Any], document: Document, overrides: Overrides, flags: dict[Path, str]) -> None:
    secrets = value.get("secrets")
    if type(secrets) is list and all(type(one) is str for one in secrets):
        secrets = dict.fromkeys(secrets)
    if _is_map(value.get("envs")) and _is_map(secrets):
        for name in overrides.envs:
            if name in (secrets or {}):
                raise document.where.at("secrets").error(
                    f"{name} is a secret; pass it with --secret {name}=… instead of --env", of_key=True
                )
        envs = {name: one for name, one in (value.get("envs") or {}).items() if name not in overrides.secrets}
        value["envs"] = {**envs, **overrides.envs}
        value["secrets"] = {**(secrets or {}), **overrides.secrets}
        flags |= {("envs", name): f"--env {name}" for name in overrides.envs}
        flags |= {("secrets", name): f"--secret {name}" for name in overrides.secrets}


def _is_map(value: Any) -> bool:
    return value is None or type(value) is dict


def _unquoted(text: str, file: str, line: int) -> str:
    quote = text[:1]
    if quote not in {"'", '"'}:
        return text.split(" #", 1)[0].rstrip()
    inner, closed, rest = text[1:].partition(quote)
    if not closed or (rest.strip() and not rest.strip().startswith("#")):
        raise TaskError("the quotes of the value do not match; close them at its end", file=file, line=line)
    return inner


def _flag(flag: str) -> Where:
    source = SourceMap()
    source.flags[("",)] = flag
    return Where(source, ("",))


def _at_line(file: str, line: int) -> Where:
    source = SourceMap(file)
    source.values[()] = Mark(line, 1)
    return Where(source)
