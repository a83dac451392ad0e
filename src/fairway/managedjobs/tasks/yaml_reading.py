"""YAML to plain values with the line of each, by the rules that SkyPilot reads task files by.

The parser hands over one event after another and nothing here calls itself, so depth costs nothing and is bounded.
Aliases are written out; what that would come to is counted before it is done. Dates and `12:30` stay text.
"""

import re
from typing import Any, Final

import yaml

from fairway.apis.machinery.yaml_values import copied
from fairway.apis.machinery.yaml_values import plain as _plain
from fairway.errors import BadRequest
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import Mark, Path, SourceMap
from fairway.managedjobs.tasks.values import shown
from fairway.managedjobs.tasks.yaml_wording import in_plain_words

DEEPEST: Final = 64
MOST_VALUES: Final = 50_000
_MOST_DIRECTIVES: Final = 20
"""The time that the parser takes grows with the square of these."""

_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
_NO_CHARACTER: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset({"str", "int", "float", "bool", "null"})
_MERGE: Final = "<<"
_LETTERS: Final = frozenset({"y", "Y", "n", "N"})
"""Booleans to Kubernetes, but text to SkyPilot, whose files these are."""


def documents(text: str, file: str, what: str) -> list[tuple[Any, SourceMap]]:
    """The documents of a text that hold anything at all."""
    bad = _NO_CHARACTER.search(text)
    if bad:
        before = text[: bad.start()]
        line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
        name = f"U+{ord(bad.group()):04X}"
        raise TaskError(
            f"the character {name} is not allowed in {what}; remove it", file=file, line=line, column=column
        )
    if len(_DIRECTIVE.findall(text)) > _MOST_DIRECTIVES:
        raise TaskError(f"more than {_MOST_DIRECTIVES} lines begin with %; {what} needs none of them", file=file)
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise in_plain_words(error, text, file) from None
    except yaml.YAMLError as error:
        raise TaskError(f"this is not valid YAML: {' '.join(str(error).split())}", file=file) from None
    return [(value, source) for value, source in builder.done if value is not None]


def plain(text: str) -> Any:
    """What a word without quotes stands for; `BadRequest` for infinity and what else is no number in JSON."""
    return text if text in _LETTERS else _plain(text)


class _Part:
    """A map or a list that is not complete yet."""

    __slots__ = ("anchor", "before", "height", "key", "merged", "path", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None, before: int) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.before = before
        """How many values there were before it."""

        self.height = 1
        self.key: str | None = None
        """Of a map: the key whose value comes next."""

        self.merged: list[dict[str, Any]] = []


class _Builder:
    """Makes documents from events."""

    def __init__(self, file: str) -> None:
        self.done: list[tuple[Any, SourceMap]] = []
        self._file = file
        self._open: list[_Part] = []
        self._anchored: dict[str, tuple[Any, int, int]] = {}
        """A value, how many values it is made of, and how high it is."""

        self._count = 0
        self._source = SourceMap(file)
        self._root: Any = None

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._source, self._root, self._anchored = SourceMap(self._file), None, {}
            self._source.values[()] = _mark(event.end_mark)
        elif isinstance(event, yaml.DocumentEndEvent):
            self.done.append((self._root, self._source))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._counted(1, event)
        if "\0" in event.value:
            raise self._error("holds a NUL character, which no process can be given; remove it", event)
        value = self._resolved(event)
        if self._key_is_next():
            self._take_key(value, event)
            self._anchor(event.anchor, value, 1, 0)
            return
        self._anchor(event.anchor, value, 1, 0)
        path = self._path()
        if type(value) is not str and event.value:
            self._source.written[path] = event.value
        if event.value or event.style:  # an empty value has its mark wherever the next token is
            self._source.values[path] = _mark(event.start_mark)
        self._put(value, 0, event)

    def _begin(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent) -> None:
        if self._key_is_next():
            raise self._error("a list or a map stands where a key must be; put the key in quotes", event)
        if len(self._open) >= DEEPEST:
            raise self._error(f"the file is nested deeper than {DEEPEST} levels; make it flatter", event)
        allowed = {"map", "set"} if type(value) is dict else {"seq"}
        if event.tag not in {None, "!"} and event.tag.removeprefix(_TAG) not in allowed:
            raise self._unknown_tag(event.tag, event)
        if event.anchor:
            self._anchored.pop(event.anchor, None)  # it stands for nothing before it is complete
        path = self._path()
        self._source.values[path] = _mark(event.start_mark)
        if path in self._source.keys:  # a block begins below its key; people look for the key
            self._source.values[path] = self._source.keys[path]
        self._open.append(_Part(value, path, event.anchor, self._count))
        self._counted(1, event)

    def _end(self) -> None:
        part = self._open.pop()
        if type(part.value) is dict:
            for merged in part.merged:
                for key, value in merged.items():
                    part.value.setdefault(key, value)
        if part.anchor:
            self._anchored[part.anchor] = (part.value, self._count - part.before, part.height)
        self._put(part.value, part.height, None)

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchor = event.anchor or ""
        if anchor not in self._anchored:
            message = f"the alias *{anchor[:60]} stands for nothing yet, or for itself; write &{anchor[:60]} before it"
            raise self._error(message, event)
        value, weight, height = self._anchored[anchor]
        if len(self._open) + height > DEEPEST:
            raise self._error(f"the file is nested deeper than {DEEPEST} levels; make it flatter", event)
        self._counted(weight, event)
        if self._key_is_next():
            self._take_key(value, event)
            return
        self._source.values[self._path()] = _mark(event.start_mark)
        self._put(copied(value), height, event)

    def _take_key(self, value: Any, event: yaml.Event) -> None:
        part = self._open[-1]
        if type(value) is not str:
            written = event.value if isinstance(event, yaml.ScalarEvent) else shown(value)
            quoted = f'"{written}"' if len(written) < 60 else "quotes"
            raise self._error(f"the key {written[:60] or 'null'} is not text; write it as {quoted}", event)
        if value == _MERGE and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            part.key = _MERGE
            return
        path = (*part.path, value)
        if value in part.value and path in self._source.keys:
            first = self._source.keys[path].line
            message = f"the key {shown(value)} is there twice, first in line {first}; remove one of them"
            raise self._error(message, event)
        self._source.keys[path] = _mark(event.start_mark)
        part.key = value
        part.value[value] = None  # type: ignore[call-overload]  # a second key of this name is found by it

    def _put(self, value: Any, height: int, event: yaml.Event | None) -> None:
        if not self._open:
            self._root = value
            return
        part = self._open[-1]
        part.height = max(part.height, height + 1)
        if type(part.value) is list:
            part.value.append(value)
        elif type(part.value) is dict and part.key is not None:
            if part.key == _MERGE and (*part.path, _MERGE) not in self._source.keys:
                part.merged += self._mergeable(value, event)
            else:
                part.value[part.key] = value
            part.key = None

    def _mergeable(self, value: Any, event: yaml.Event | None) -> list[dict[str, Any]]:
        found = value if type(value) is list else [value]
        if not all(type(one) is dict for one in found):
            raise self._error("what `<<` merges must be a map, or a list of maps", event)
        return found

    def _resolved(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            if not event.implicit[0] or event.style:
                return event.value
            return self._number(event)
        name = tag.removeprefix(_TAG)
        if not tag.startswith(_TAG) or name not in _SCALAR_TAGS:
            raise self._unknown_tag(tag, event)
        return event.value if name == "str" else self._number(event)

    def _number(self, event: yaml.ScalarEvent) -> Any:
        try:
            return plain(event.value)
        except BadRequest:
            raise self._error(
                f"{event.value[:20]} is not a number that can be used; write a finite one", event
            ) from None

    def _anchor(self, anchor: str | None, value: Any, weight: int, height: int) -> None:
        if anchor:
            self._anchored[anchor] = (value, weight, height)

    def _key_is_next(self) -> bool:
        return bool(self._open) and type(self._open[-1].value) is dict and self._open[-1].key is None

    def _path(self) -> Path:
        if not self._open:
            return ()
        part = self._open[-1]
        return (*part.path, len(part.value) if type(part.value) is list else part.key or "")

    def _counted(self, more: int, event: yaml.Event) -> None:
        self._count += more
        if self._count > MOST_VALUES:
            message = f"the file stands for more than {MOST_VALUES} values once its aliases are written out"
            raise self._error(f"{message}; use fewer of them", event)

    def _unknown_tag(self, tag: str, event: yaml.Event) -> TaskError:
        name = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
        return self._error(f"the tag {name[:60]} means nothing here; remove it", event)

    def _error(self, message: str, event: yaml.Event | None) -> TaskError:
        mark = _mark(event.start_mark) if event is not None else Mark(0, 0)
        return TaskError(message, file=self._file, line=mark.line, column=mark.column)


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)
