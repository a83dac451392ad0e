"""The volumes of a pod, as directories of this machine.

They are made when the first container of a pod starts: an empty directory, or files with what config maps, secrets and
the pod itself hold at that moment. Files of config maps and secrets are not changed under a running pod. Directories
are for their owner alone, and so are the files of secrets.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.environment import Lookup, Sources
from fairway.runner.pods.fields import field_value, resource_value
from fairway.runner.pods.troubles import ConfigError, from_os_error

_KNOWN: Final = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
_FILE_MODE: Final = 0o644
_AUTOMOUNTED: Final = "kube-api-access-"
"""How the volume is named that a cluster adds to pods; it is made without the token, which is not offered here."""

_HOST_PATH_CHECKS: Final = {
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


class _File(Struct, frozen=True):
    path: str
    content: bytes
    mode: int


def made_volumes(pod: Manifest, directory: Path, sources: Sources) -> dict[str, Path]:
    """Make the volumes of a pod; where each is, by name. `ConfigError` where one cannot be had."""
    places: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        try:
            places[name] = _made(pod, volume, directory / name, sources)
        except ConfigError as error:
            trouble = error.trouble
            raise ConfigError(f'volume "{name}": {trouble.message}', lasting=trouble.lasting) from error
        except OSError as error:
            raise from_os_error(f'volume "{name}"', error) from error
    return places


def _made(pod: Manifest, volume: Mapping[str, Any], place: Path, sources: Sources) -> Path:
    kind = next((kind for kind in volume if kind != "name" and volume[kind] is not None), "emptyDir")
    if kind not in _KNOWN:
        raise ConfigError(f"there is no {kind} on this machine; use hostPath or emptyDir", lasting=True)
    source = volume.get(kind) or {}
    if kind == "hostPath":
        return _host_path(source)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if kind == "emptyDir":
        return place
    if volume["name"].startswith(_AUTOMOUNTED):
        source = {"sources": [part for part in source.get("sources") or () if "serviceAccountToken" not in part]}
    for file in _files(kind, pod, source, source.get("defaultMode", _FILE_MODE), sources):
        _write(place, file)
    return place


def _host_path(source: Mapping[str, Any]) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    check = _HOST_PATH_CHECKS.get(kind)
    if check is not None and not check(path):
        raise ConfigError(f"hostPath type check failed: {path} is not a {kind.removesuffix('OrCreate')}")
    return path


def _files(kind: str, pod: Manifest, source: Mapping[str, Any], mode: int, sources: Sources) -> Iterator[_File]:
    if kind == "configMap":
        yield from _entries("configmap", "config", sources.config_maps, pod, source, source.get("name"), mode)
    elif kind == "secret":
        named = source.get("secretName") or source.get("name")
        for file in _entries("secret", "secret", sources.secrets, pod, source, named, mode):
            yield _File(file.path, file.content, file.mode & 0o700)
    elif kind == "downwardAPI":
        for item in source.get("items") or ():
            yield _File(item["path"], _field(pod, item, sources).encode(), item.get("mode", mode))
    elif kind == "projected":
        for part in source.get("sources") or ():
            inner = next(iter(part), "")
            if inner not in ("configMap", "secret", "downwardAPI"):
                raise ConfigError(f"there is no {inner} on this machine", lasting=True)
            yield from _files(inner, pod, part[inner] or {}, mode, sources)
    else:
        raise ConfigError(f"there is no {kind} on this machine", lasting=True)


def _entries(
    kind: str, noun: str, lookup: Lookup, pod: Manifest, source: Mapping[str, Any], name: str | None, mode: int
) -> Iterator[_File]:
    found = lookup(pod["metadata"]["namespace"], name or "")
    if found is None:
        if source.get("optional"):
            return
        raise ConfigError(f'{kind} "{name}" not found')
    contents = _contents(kind, found)
    items = source.get("items")
    if not items:
        for key, content in contents.items():
            yield _File(key, content, mode)
        return
    for item in items:
        if item["key"] in contents:
            yield _File(item["path"], contents[item["key"]], item.get("mode", mode))
        elif not source.get("optional"):
            raise ConfigError(f"references non-existent {noun} key: {item['key']}")


def _contents(kind: str, found: Manifest) -> dict[str, bytes]:
    data = found.get("data") or {}
    if kind == "secret":
        return {key: b64decode(value) for key, value in data.items()}
    binary = {key: b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
    return {**{key: value.encode() for key, value in data.items()}, **binary}


def _field(pod: Manifest, item: Mapping[str, Any], sources: Sources) -> str:
    if item.get("fieldRef"):
        return field_value(pod, item["fieldRef"]["fieldPath"])
    return resource_value(pod, {}, item["resourceFieldRef"], sources.node)


def _write(place: Path, file: _File) -> None:
    inner = PurePosixPath(file.path)
    if inner.is_absolute() or ".." in inner.parts:
        raise ConfigError(f"{file.path!r} leads out of the volume", lasting=True)
    target = place / inner
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_bytes(file.content)
    temporary.chmod(file.mode)
    temporary.replace(target)
