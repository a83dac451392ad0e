"""YAML to plain values with the line of each, by the rules that SkyPilot reads task files by.

The parser hands over one event after another and nothing here calls itself, so depth costs nothing and is bounded.
Aliases are written out; what that would come to is counted before it is done. Dates and `12:30` stay text.
"""

import re
from typing import Any, Final

import yaml

from fairway.apis.machinery.yaml_values import MERGE, Builder
from fairway.apis.machinery.yaml_values import plain as _plain
from fairway.errors import BadRequest
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import Mark, SourceMap
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
        values = builder.documents(yaml.parse(text, Loader=yaml.CSafeLoader))
        return [(value, builder.source) for value in values if value is not None]
    except yaml.MarkedYAMLError as error:
        raise in_plain_words(error, text, file) from None
    except yaml.YAMLError as error:
        raise TaskError(f"this is not valid YAML: {' '.join(str(error).split())}", file=file) from None


def plain(text: str) -> Any:
    """What a word without quotes stands for; `BadRequest` for infinity and what else is no number in JSON."""
    return text if text in _LETTERS else _plain(text)


class _Builder(Builder):
    """Makes documents from events, with the line and column of each value."""

    def __init__(self, file: str) -> None:
        super().__init__(deepest=DEEPEST, most_values=MOST_VALUES)
        self._file = file
        self.source = SourceMap(file)
        """Of the last document."""

    def _begin_document(self, event: yaml.Event) -> None:
        self.source = SourceMap(self._file)
        self.source.values[()] = _mark(event.end_mark)

    def _begin(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent) -> None:
        allowed = {"map", "set"} if type(value) is dict else {"seq"}
        if event.tag not in {None, "!"} and event.tag.removeprefix(_TAG) not in allowed:
            raise self._unknown_tag(event.tag, event)
        super()._begin(value, event)

    def _placed(self, event: yaml.Event) -> None:
        path, mark = self._path(), _mark(event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            mark = self.source.keys.get(path, mark)  # a block begins below its key; people look for the key
        elif isinstance(event, yaml.ScalarEvent) and not event.value and not event.style:
            return  # an empty value has its mark wherever the next token is
        self.source.values[path] = mark

    def _take_key(self, value: Any, event: yaml.Event) -> None:
        part = self._open[-1]
        if type(value) is not str:
            written = event.value if isinstance(event, yaml.ScalarEvent) else shown(value)
            quoted = f'"{written}"' if len(written) < 60 else "quotes"
            raise self._error(f"the key {written[:60] or 'null'} is not text; write it as {quoted}", event)
        part.key = value
        if value == MERGE and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            part.merging = True
            return
        path = (*part.path, value)
        if path in self.source.keys:
            first = self.source.keys[path].line
            message = f"the key {shown(value)} is there twice, first in line {first}; remove one of them"
            raise self._error(message, event)
        self.source.keys[path] = _mark(event.start_mark)

    def _resolved(self, event: yaml.ScalarEvent) -> Any:
        if "\0" in event.value:
            raise self._error("holds a NUL character, which no process can be given; remove it", event)
        value = self._read(event)
        if type(value) is not str and event.value and not self._key_is_next():
            self.source.written[self._path()] = event.value
        return value

    def _read(self, event: yaml.ScalarEvent) -> Any:
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

    def _unknown_tag(self, tag: str, event: yaml.Event) -> TaskError:
        name = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
        return self._error(f"the tag {name[:60]} means nothing here; remove it", event)

    def _error(self, message: str, event: yaml.Event) -> TaskError:
        mark = _mark(event.start_mark)
        return TaskError(message, file=self._file, line=mark.line, column=mark.column)


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)
