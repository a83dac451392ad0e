"""Accelerators by name: as people declare them, and as a driver calls the same thing."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

LABEL: Final = "skypilot.co/accelerator"
"""The label of a node that says what its GPUs are, in lower case."""

GPU: Final = "nvidia.com/gpu"
MODELS: Final = "gpu.fairway.dev/"
"""Prefix of the labels of a node with several models: `gpu.fairway.dev/t4: "2"`. It has no label `LABEL` then, for that
can name only one; requests for any of them by `LABEL` match all the same.
"""

_DECLARED: Final = re.compile(r"(?:(?P<model>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?):)?(?P<count>[0-9]{1,6})")
_MAKER: Final = frozenset(
    {"nvidia", "tesla", "quadro", "geforce", "graphics", "device", "generation", "edition", "gpu"}
)
_FORM: Final = re.compile(r"sxm[0-9]*|pcie|pci|nvl|hbm[0-9]*e?|[0-9]+gb?")
_TOLD_BY_MEMORY: Final = {("a100", "80gb"), ("v100", "32gb")}
"""Those of which there are two that people tell apart."""


def declared_gpus(text: str) -> tuple[int, str]:
    """How many, and which model if it is said: `8`, `T4:8`. `ValueError` if it is neither."""
    found = _DECLARED.fullmatch(text)
    if found is None:
        raise ValueError("give a number, or a model and a number such as T4:8; 0 for none")
    return int(found["count"]), found["model"] or ""


def declared_models(text: str) -> tuple[tuple[str, int], ...]:
    """The models and how many there are of each: `8`, `T4:8`, `V100:4,T4:2`. `ValueError` if it is none of these."""
    parts = [declared_gpus(part.strip()) for part in text.split(",")]
    names = [model.lower() for _, model in parts]
    if len(parts) > 1 and (not all(names) or len(set(names)) < len(names)):
        raise ValueError("give each model once, with its number, such as V100:4,T4:2")
    return tuple((model, count) for count, model in parts)


def asked_models(
    selector: Mapping[str, str], terms: Iterable[Iterable[tuple[str, str, tuple[str, ...]]]]
) -> frozenset[str]:
    """The models that a pod asks for by its node selector and required affinity; empty if any will do."""
    if LABEL in selector:
        return frozenset({selector[LABEL]})
    found: set[str] = set()
    for term in terms:
        about = [(operator, values) for key, operator, values in term if key == LABEL]
        if not about:
            return frozenset()
        found.update(value for operator, values in about if operator == "In" for value in values)
    return frozenset(found)


def model_of(name: str) -> str:
    """What people call a GPU, in lower case, by the name that its driver gives it.

    `Tesla T4` is a `t4`, `NVIDIA A100-SXM4-80GB` an `a100-80gb`, `NVIDIA GeForce RTX 4090` an `rtx4090`: the name
    without the maker, the form and, as a rule, the memory.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word and word not in _MAKER]
    if words[:1] == ["rtx"] and len(words) > 1:
        words[:2] = [words[1] if words[1][0].isalpha() else f"rtx{words[1]}"]
    if not words:
        return ""
    first, rest = words[0], words[1:]
    told = [word for word in rest if not _FORM.fullmatch(word) or (first, word) in _TOLD_BY_MEMORY]
    return "-".join([first, *told])[:63].rstrip("-")
