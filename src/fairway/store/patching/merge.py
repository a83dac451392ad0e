"""JSON Merge Patch (RFC 7386): an object merged into another, where `null` removes."""

from typing import Any


def merge_patch(document: Any, patch: Any) -> Any:
    """The document with the patch laid over it.

    Neither argument is changed. Objects on the way to a change are copied, everything else is shared with the
    arguments. The empty patch gives the document itself back.
    """
    if not isinstance(patch, dict):
        return patch
    if not isinstance(document, dict):
        return _without_nulls(patch)
    result = document
    for key, theirs in patch.items():
        if theirs is None:
            if key in result:
                if result is document:
                    result = document.copy()
                del result[key]
            continue
        ours = result.get(key)
        new = merge_patch(ours, theirs) if isinstance(theirs, dict) else theirs
        if new is not ours:
            if result is document:
                result = document.copy()
            result[key] = new
    return result


def _without_nulls(patch: dict[str, Any]) -> dict[str, Any]:
    """A patch for an object that is not there yet: nothing to take away."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }
