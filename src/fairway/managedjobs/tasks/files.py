"""Local files that a task finds at a path: its working directory, `file_mounts`, and the archives that they become.

Jobs share the files of this machine, so a destination is in the job's own directories: below the working directory, or
below `~/`. What is packed and sent is the command line's business.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.managedjobs.tasks.envs import filled_in
from fairway.managedjobs.tasks.labels import object_name
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.task import Files
from fairway.managedjobs.tasks.values import mapping, shown, text, unknown, whole

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SKYPILOTS: Final = "~/sky_workdir"
"""What SkyPilot calls the working directory."""

_MOST_FILES: Final = 100
_STORED: Final = ("archive", "path", "size", "claim")
_LARGEST: Final = 1 << 40


class Mount(Struct, frozen=True, kw_only=True):
    """Local files of the user, and where the task finds them."""

    source: str
    path: str
    """`.` (the working directory), relative to it, or below `~/`."""

    where: Where


def workdir(value: Any, where: Where, variables: Mapping[str, str | None]) -> tuple[Mount, ...]:
    if type(value) is dict:
        raise where.error("a git repository cannot be a workdir here; clone it and name the local directory", value)
    source = filled_in(text(value, where, "."), variables, where)
    if not source.strip():
        raise where.error('is empty; write "." for the current directory, or leave it out', value)
    _refuse_uri(source, where, "directory")
    return (Mount(source=source, path=".", where=where),)


def file_mounts(value: Any, where: Where, variables: Mapping[str, str | None]) -> tuple[Mount, ...]:
    found: dict[str, Mount] = {}
    for key, one in mapping(value, where, "{data: ./data}").items():
        inner = where.at(key)
        if type(one) is dict:
            raise inner.error("a bucket cannot be mounted here; download it, and name the local path", one)
        source = filled_in(text(one, inner, "./data"), variables, inner)
        if not source.strip():
            raise inner.error("the local path is empty; write for example ./data", one)
        _refuse_uri(source, inner, "path")
        path = destination(filled_in(key, variables, inner), inner)
        if path in found:
            raise inner.error(f"two mounts have the destination {shown(path)}; remove one of them", key, of_key=True)
        found[path] = Mount(source=source, path=path, where=inner)
    return tuple(found.values())


def stored_files(value: Any, where: Where) -> tuple[Files, ...]:
    """`files` of a stored task."""
    if type(value) is not list or len(value) > _MOST_FILES:
        raise where.error(
            f"must be a list of at most {_MOST_FILES} entries like {{archive: SHA-256, path: data}}", value
        )
    found = []
    for position, one in enumerate(value):
        inner = where.at(position)
        entry = mapping(one, inner, "{archive: SHA-256, path: data}")
        for name in entry:
            if name not in _STORED:
                raise unknown(name, _STORED, inner.at(name))
        archive = text(entry.get("archive"), inner.at("archive"), "the SHA-256 of the archive")
        if not _DIGEST.fullmatch(archive):
            raise inner.at("archive").error(f"{shown(archive)} is no SHA-256; write its 64 digits in hex", archive)
        path = inner.at("path")
        given = text(entry.get("path"), path, "data")
        size = whole(entry.get("size", 0), inner.at("size"), least=0, most=_LARGEST, example="1048576 (bytes)")
        claim = entry.get("claim")
        if claim is not None:
            claim = object_name(text(claim, inner.at("claim"), "fairway-files-1f2e3d"), inner.at("claim"), "a claim")
        # A single file for the home directory is an archive that is unpacked there.
        there = given if given == "~" else destination(given, path)
        found.append(Files(archive=archive, path=there, size=size, claim=claim or ""))
    return tuple(found)


def destination(path: str, where: Where) -> str:
    """Where the task finds the files, without detours; refused where that is not its own."""
    given = path.strip()
    if given == _SKYPILOTS or given.startswith(f"{_SKYPILOTS}/"):
        given = given.removeprefix(_SKYPILOTS).lstrip("/") or "."
    home = given.startswith("~/")
    if given.startswith("/"):
        name = "/".join(_parts(given)[-1:]) or "data"
        raise where.error(
            f"{shown(path)} is an absolute path, and jobs share the files of this machine; write {name} (below the "
            f"working directory) or ~/{name}",
            path,
            of_key=True,
        )
    if given.startswith("~") and not home:
        raise where.error(f"{shown(path)} is no directory of the job; write ~/{given.strip('~/') or 'data'}", path)
    parts = _parts(given.removeprefix("~/"))
    if ".." in parts:
        message = f"{shown(path)} leads out of the job's own directory; write a path without `..`"
        raise where.error(message, path, of_key=True)
    if not given or (home and not parts):
        raise where.error(
            f"{shown(path)} names no file or directory; write for example data or ~/data", path, of_key=True
        )
    return ("~/" if home else "") + "/".join(parts) or "."


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _refuse_uri(source: str, where: Where, what: str) -> None:
    if _URI.match(source):
        raise where.error(
            f"{shown(source)} is not on this machine, and buckets cannot be mounted here; download it, and name the "
            f"local {what}",
            source,
        )
