"""The source of a value: file and line, field of a stored job, or flag.

A reader goes down into a document with a `Where` in its hand, and whatever it finds wrong is said by that `Where`.
"""

import re
from typing import Any, Final, NamedTuple, TypeAlias

from fairway.managedjobs.tasks.errors import TaskError

Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_KEY_SHOWN: Final = 80


class Mark(NamedTuple):
    """A place in a text, both from 1."""

    line: int
    column: int


class SourceMap:
    """What is known about where the parts of one document came from; empty for an object of the API."""

    __slots__ = ("file", "flags", "keys", "prefix", "values", "written")

    def __init__(self, file: str = "", prefix: str = "") -> None:
        self.file = file
        self.prefix = prefix
        """What fields are below, such as `spec.tasks[0]`."""

        self.keys: dict[Path, Mark] = {}
        self.values: dict[Path, Mark] = {}
        self.written: dict[Path, str] = {}
        """What stands in the file for a value that is no string: `010`, `yes`, `1e3`."""

        self.flags: dict[Path, str] = {}
        """The fields that the command line says, by the flag."""

    def with_flags(self, flags: dict[Path, str]) -> "SourceMap":
        """The same document with fields that the command line says."""
        other = SourceMap(self.file, self.prefix)
        other.keys, other.values, other.written = self.keys, self.values, self.written
        other.flags = {**self.flags, **flags}
        return other


class Where:
    """One field of one document."""

    __slots__ = ("path", "source")

    def __init__(self, source: SourceMap, path: Path = ()) -> None:
        self.source = source
        self.path = path

    def at(self, *names: str | int) -> "Where":
        """A field inside this one."""
        return Where(self.source, self.path + names)

    @property
    def field(self) -> str:
        """As people and Kubernetes write it: `resources.any_of[0].labels[example.com/team]`."""
        text = self.source.prefix
        for name in self.path:
            if type(name) is str and _PLAIN_KEY.fullmatch(name) and len(name) <= _LONGEST_KEY_SHOWN:
                text += f".{name}" if text else name
            else:
                text += f"[{_one_line(str(name))}]"
        return text

    @property
    def line(self) -> int:
        return self._mark(of_key=True).line

    def written(self, value: Any) -> str:
        """The value as it stands in the file; as JSON writes it where there is no file."""
        if type(value) is str:
            return value
        found = self.source.written.get(self.path)
        if found is not None:
            return found
        return {True: "true", False: "false"}[value] if type(value) is bool else str(value)

    def error(self, message: str, value: object = None, *, of_key: bool = False) -> TaskError:
        """What is wrong with the value here, or (`of_key`) with the field itself."""
        flag = self._flag()
        if flag:
            return TaskError(message, field=flag, value=value)
        mark = self._mark(of_key=of_key)
        rule = "FieldValueForbidden" if of_key and value is None else "FieldValueInvalid"
        return TaskError(message, file=self.source.file, line=mark.line, field=self.field, value=value, rule=rule)

    def _flag(self) -> str:
        if not self.source.flags:
            return ""
        found = (self.source.flags.get(self.path[:length]) for length in range(len(self.path), 0, -1))
        return next((flag for flag in found if flag), "")

    def _mark(self, *, of_key: bool) -> Mark:
        source = self.source
        for length in range(len(self.path), -1, -1):
            path = self.path[:length]
            whole = length == len(self.path) and not of_key
            first, second = (source.values, source.keys) if whole else (source.keys, source.values)
            mark = first.get(path) or second.get(path)
            if mark:
                return mark
        return Mark(0, 0)


def _one_line(text: str) -> str:
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _LONGEST_KEY_SHOWN else f"{text[:_LONGEST_KEY_SHOWN]}…"
