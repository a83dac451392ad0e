"""`$(VARIABLE)` in commands, arguments and values, as Kubernetes replaces it."""

import re
from collections.abc import Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with its references replaced; `$$` is a dollar sign, and what is not known stays as it is."""
    if "$" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)
