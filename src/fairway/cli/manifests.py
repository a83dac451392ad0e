"""Manifests in files: YAML with any number of documents, or JSON; from a file, a directory or standard input.

Whatever is wrong is said with the file, the document and its line. What the objects mean is the server's business.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairway.errors import BadRequest, FairwayError

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_DEEPEST: Final = 200
_MOST_VALUES: Final = 300_000


class ManifestError(FairwayError):
    """A file that cannot be used: where, and what is wrong."""


class ManifestDocument(NamedTuple):
    """One object and where it was found."""

    where: str
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"].get("name") or "")


def read(places: Sequence[str]) -> list[ManifestDocument]:
    """All objects of files, of the files in directories, and of standard input (`-`)."""
    return [document for place in places for document in _of_place(place)]


def _of_place(place: str) -> Iterator[ManifestDocument]:
    if place == "-":
        yield from documents(sys.stdin.buffer.read(), "standard input")
        return
    path = Path(place)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
        if not files:
            raise ManifestError(f"{place}: it contains no file ending in {', '.join(_SUFFIXES)}")
        for file in files:
            yield from documents(_bytes(file), str(file))
    else:
        yield from documents(_bytes(path), place)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from None


def documents(data: bytes, file: str) -> Iterator[ManifestDocument]:
    """The objects of one text; those in a List are taken out of it."""
    count = 0
    for line, value in _values(data, file):
        if value is None:
            continue
        count += 1
        yield from _objects(value, f"{file}:{line}" if line > 1 else file)
    if not count:
        raise ManifestError(f"{file}: it contains no object")


def _objects(value: Any, where: str) -> Iterator[ManifestDocument]:
    if not isinstance(value, dict):
        raise ManifestError(f"{where}: expected an object with apiVersion, kind and metadata; found {_kind_of(value)}")
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for number, item in enumerate(value["items"], start=1):
            yield from _objects(item, f"{where}: item {number}")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ManifestError(f"{where}: {field} is missing; every object needs apiVersion and kind")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise ManifestError(f"{where}: metadata.name is missing: the {value['kind']} needs a name")
    yield ManifestDocument(where, value)


def _kind_of(value: Any) -> str:
    names = {str: "a text", list: "a list", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _values(data: bytes, file: str) -> Iterator[tuple[int, Any]]:
    """The value of each document with the line that it begins in."""
    if data.lstrip()[:1] == b"{":
        found = _json(data)
        if found is not None:
            yield 1, found
            return
    yield from _yaml(data, file)


def _json(data: bytes) -> Any:
    """The one value of a JSON text; nothing if it is none, since YAML has braces as well."""
    import msgspec  # noqa: PLC0415 - most files are YAML

    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _yaml(data: bytes, file: str) -> Iterator[tuple[int, Any]]:
    import yaml  # noqa: PLC0415 - help must not wait for it

    from fairway.apis.machinery.yaml_values import Builder  # noqa: PLC0415

    lines: list[int] = []

    def noted(events: Iterable[yaml.Event]) -> Iterator[yaml.Event]:
        begun = False
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                begun = True
            elif begun:
                # The line of the first value, not of the `---` before it.
                lines.append(event.start_mark.line + 1 if event.start_mark is not None else 1)
                begun = False
            yield event

    try:
        text = data.decode()
        builder = Builder(deepest=_DEEPEST, most_values=_MOST_VALUES)
        for number, value in enumerate(builder.documents(noted(yaml.parse(text, Loader=yaml.CSafeLoader)))):
            yield lines[number], value
    except UnicodeDecodeError as error:
        raise ManifestError(f"{file}: the text is not UTF-8: {error.reason} at byte {error.start}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ManifestError(f"{file}{line}: not valid YAML: {error.problem or error}{_advice(data, mark)}") from None
    except yaml.YAMLError as error:
        raise ManifestError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except BadRequest as error:
        raise ManifestError(f"{file}{f':{lines[-1]}' if lines else ''}: {error}") from None


def _advice(data: bytes, mark: Any) -> str:
    """What people most often did."""
    if mark is None:
        return ""
    lines = data.decode(errors="replace").splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    return "; YAML is indented with spaces, not tabs" if "\t" in line[: len(line) - len(line.lstrip()) + 1] else ""
