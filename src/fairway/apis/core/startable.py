"""What no process can be started with: strings that hold a NUL or are too long for `execve`.

An API server accepts these, and every container then fails at its start; here they are refused when they are written.
"""

from typing import Final

from fairway.apis.core.checks import Part
from fairway.apis.machinery import problems
from fairway.errors import FieldError

LONGEST_STRING: Final = 128 * 1024
"""Linux' limit for one argument or variable (`NAME=value`), with the NUL at its end."""

MOST_BYTES: Final = 2_000_000
"""A little less than Linux' limit for all of them, with the usual stack of 8 MiB."""


def wrong_string(text: str, path: str, *, beside: int = 0) -> list[FieldError]:
    """What is wrong with an argument, or the value of a variable (`beside` is its name)."""
    if "\0" in text:
        return [problems.invalid(path, f"{text[:40]}…", "must not contain a NUL, with which no process can be started")]
    size = beside + len(text.encode(errors="surrogatepass"))
    if size >= LONGEST_STRING:
        rule = f"may not be longer than {LONGEST_STRING - 1 - beside} bytes: the system starts no process with more"
        return [problems.invalid(path, f"{text[:40]}…", f"{rule}; put it into a file, such as a volume of a ConfigMap")]
    return []


def wrong_arguments(container: Part, path: str) -> list[FieldError]:
    """What is wrong with the command of a container, and with the size of all that it is started with."""
    errors: list[FieldError] = []
    total = 0
    for field in ("command", "args"):
        for position, text in enumerate(container.get(field) or ()):
            total += len(text) + 9
            if len(text) > LONGEST_STRING // 4 or "\0" in text:
                errors += wrong_string(text, f"{path}.{field}[{position}]")
    total += sum(len(one.get("name") or "") + len(one.get("value") or "") + 10 for one in container.get("env") or ())
    if not errors and total > MOST_BYTES:
        rule = f"its command, arguments and variables have {total} bytes; no process is started with {MOST_BYTES}"
        errors.append(problems.invalid(path, container.get("name") or "", rule))
    return errors
