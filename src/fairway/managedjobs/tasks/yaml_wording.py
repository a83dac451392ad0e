"""Errors of the YAML parser, reworded for the author of the file."""

from typing import Final

import yaml

from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.values import shown

_TABS: Final = "a tab is used for indentation; YAML allows spaces only, so write spaces instead"
_UNCLOSED: Final = {"a flow mapping": "{", "a flow sequence": "[", "a quoted scalar": "quote"}

_BY_PROBLEM: Final = {
    "mapping values are not allowed": (
        "a `:` stands where none can be; indent the line as its neighbours are, or put the text in quotes"
    ),
    "did not find expected key": "this line is indented differently from its neighbours; align them",
    "did not find expected '-' indicator": "this line is neither an item (`- `) of the list nor below it; align them",
    "block sequence entries are not allowed": (
        "a list begins where none can be; put its first `- ` on a line of its own"
    ),
    "could not find expected ':'": (
        "this line is neither `key: value` nor part of the text above; add the `:`, or indent it"
    ),
    "did not find expected <document start>": (
        "something follows the end of the document; put it on a line below `---`"
    ),
    "found unknown escape character": "there is no such escape in double quotes; write `\\\\` for a backslash",
    "found undefined tag handle": "the tag (`!`) means nothing here; remove it",
    "did not find expected alphabetic or numeric character": (
        "`*` and `&` begin a name in YAML; put the text in quotes"
    ),
    "did not find expected hexdecimal number": (
        "an escape in double quotes lacks its digits; write `\\\\` for a backslash"
    ),
    "did not find expected comment or line break": (
        "the rest of the line after `|` or `>` must be empty; begin a new line"
    ),
    "found incompatible YAML document": "only YAML 1.1 and 1.2 are read; remove the line that begins with %YAML",
}
"""What the parser's sentence begins with, and what to say instead."""


def in_plain_words(error: yaml.MarkedYAMLError, text: str, file: str) -> TaskError:
    """The error of a text that is no YAML."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.split("\n")
    content = lines[line - 1] if 0 < line <= len(lines) else ""
    problem = error.problem or error.context or ""
    if "\t" in content[: len(content) - len(content.lstrip())] or "found a tab character" in problem:
        return TaskError(_TABS, file=file, line=line)
    opened = _unclosed(error)
    if opened and error.context_mark:
        return TaskError(opened, file=file, line=error.context_mark.line + 1, column=error.context_mark.column + 1)
    if "cannot start any token" in problem:
        sign = content[column - 1 : column]
        if sign == "\t":
            return TaskError(_TABS, file=file, line=line)
        message = f"a value cannot begin with {sign or 'this'}; put it in quotes"
        return TaskError(message, file=file, line=line, column=column)
    message = next((words for begin, words in _BY_PROBLEM.items() if problem.startswith(begin)), "")
    if not message:
        message = f"this is not valid YAML ({problem}): {shown(content.strip())}"
    return TaskError(message, file=file, line=line, column=column)


def _unclosed(error: yaml.MarkedYAMLError) -> str:
    """What was opened and never closed."""
    context = error.context or ""
    opener = next((sign for what, sign in _UNCLOSED.items() if what in context), "")
    if (
        not opener
        or not error.context_mark
        or "escape" in (error.problem or "")
        or "hexdecimal" in (error.problem or "")
    ):
        return ""
    if opener == "quote":
        return "the quote that is opened here is never closed; close it"
    closer = {"{": "}", "[": "]"}[opener]
    return f"the `{opener}` that is opened here is not closed where it should be; add a `{closer}` or a comma"
