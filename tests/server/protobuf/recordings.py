"""The recorded messages: what Kubernetes' own programs write in protobuf, and the same in JSON.

`samples` come from Kubernetes' Go types (`tools/protobuf/samples`), `objects` from an API server and `kubectl` from
kubectl (`tools/protobuf/record.py`).
"""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from fairway.apis.machinery.kind import Manifest

DATA = Path(__file__).parent / "data"


@cache
def recordings(file: str, named: str = "name") -> dict[str, tuple[bytes, Manifest | None]]:
    """The body and what it says in JSON (where that was recorded), by name."""
    content: list[dict[str, Any]] = json.loads((DATA / f"{file}.json").read_text(encoding="utf-8"))
    return {one[named]: (base64.b64decode(one["protobuf"]), one.get("json")) for one in content}


def created() -> dict[str, tuple[bytes, Manifest | None]]:
    """What kubectl sends for objects that it makes."""
    return {name: one for name, one in recordings("kubectl", "command").items() if name.startswith("create ")}
