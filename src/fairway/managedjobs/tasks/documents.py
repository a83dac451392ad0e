"""Parses task files into documents, before their fields are interpreted.

A document is a map of plain values and knows the line of each. What comes from outside may be anything, so whatever is
not such a map is refused here, with one sentence. YAML itself is in `yaml_reading`, which is loaded when it is needed.
"""

from typing import Any, Final

from msgspec import Struct

from fairway.errors import BadRequest
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import SourceMap, Where
from fairway.managedjobs.tasks.values import shown, sort_of

LARGEST: Final = 1_000_000
"""Bytes of a file. Larger ones are data, and data has its place in `workdir` and `file_mounts`."""

MOST_TASKS: Final = 100
HEADER_FIELDS: Final = frozenset({"name", "execution", "primary_tasks", "termination_delay", "inter_connection"})
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_EXAMPLE: Final = "a task file is a map of fields such as `run: echo hello`"


class Document(Struct, frozen=True):
    """One map of a file, with where its parts were written."""

    value: dict[str, Any]
    source: SourceMap

    @property
    def where(self) -> Where:
        return Where(self.source)


class TaskFile(Struct, frozen=True, kw_only=True):
    """The tasks of one file, as they were written; several are a pipeline."""

    file: str = ""
    header: Document | None = None
    tasks: tuple[Document, ...]


def read(text: str | bytes, file: str) -> TaskFile:
    """The tasks of a text. `file` is what errors call it by; `TaskError` if it is no task file."""
    documents = [_checked(value, source) for value, source in _documents(text, file, "a task file")]
    if not documents:
        raise TaskError(f"the file {_emptiness(decoded(text, file))}; {_EXAMPLE}", file=file, line=1)
    header = documents.pop(0) if len(documents) > 1 and documents[0].value.keys() <= HEADER_FIELDS else None
    if len(documents) > MOST_TASKS:
        where = documents[MOST_TASKS].where
        raise where.error(f"the pipeline has more than {MOST_TASKS} tasks; split it into several files")
    return TaskFile(file=file, header=header, tasks=tuple(documents))


def of_command(command: str, *, workdir: str = "") -> TaskFile:
    """The task that a command stands for: its `run`, and the directory that it runs in a copy of."""
    source = SourceMap()
    source.flags |= {("run",): "the command", ("workdir",): "the current directory"}
    return TaskFile(tasks=(Document({"run": command, **({"workdir": workdir} if workdir else {})}, source),))


def read_map(text: str | bytes, file: str, what: str) -> Document:
    """The one map of a text that may as well be empty, such as a configuration file."""
    found = list(_documents(text, file, what))
    if not found:
        return Document({}, SourceMap(file))
    if len(found) > 1:
        raise Where(found[1][1]).error(f"{what} is one document; remove the second one, and the `---` above it")
    value, source = found[0]
    if type(value) is not dict:
        raise Where(source).error(f"{what} is a map of fields, but this is {sort_of(value)}")
    return Document(value, source)


def scalar(text: str) -> Any:
    """What one word stands for in YAML: `-1` is a number, `true` a boolean, `name` a string."""
    from fairway.managedjobs.tasks import yaml_reading  # noqa: PLC0415 - loads PyYAML

    try:
        return yaml_reading.plain(text)
    except BadRequest:  # such as .inf, which is no number in JSON
        return text


def decoded(text: str | bytes, file: str) -> str:
    """The characters of a file; `TaskError` if it holds something else."""
    size = len(text)
    if size > LARGEST:
        raise TaskError(
            f"the file has {size} bytes, and at most {LARGEST} are read; put data into `workdir` or `file_mounts`",
            file=file,
        )
    if type(text) is str:
        return text.removeprefix("\ufeff")
    data = bytes(text)  # type: ignore[arg-type]
    if data.startswith(_UTF_16):
        raise TaskError("this is UTF-16; save the file as UTF-8 text", file=file, line=1)
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise TaskError("this is a binary file (it holds NUL bytes); give a YAML file", file=file, line=line)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TaskError(
            f"the byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8 text", file=file, line=line
        ) from None


def _emptiness(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "is empty"
    return "holds nothing but comments" if all(line.startswith("#") for line in lines) else "holds no fields"


def _documents(text: str | bytes, file: str, what: str) -> list[tuple[Any, SourceMap]]:
    characters = decoded(text, file)
    if not characters.strip():
        return []
    from fairway.managedjobs.tasks import yaml_reading  # noqa: PLC0415 - loads PyYAML

    return yaml_reading.documents(characters, file, what)


def _checked(value: Any, source: SourceMap) -> Document:
    where = Where(source)
    if type(value) is not dict:
        raise where.error(f"{_EXAMPLE}, but this is {sort_of(value)}" + ("" if value is None else f": {shown(value)}"))
    if "apiVersion" in value and "kind" in value:
        raise where.at("kind").error(
            f"this is a Kubernetes object ({shown(value['kind'])}), not a task; use `fairway apply -f`", of_key=True
        )
    return Document(value, source)
