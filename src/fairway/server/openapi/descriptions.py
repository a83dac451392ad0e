"""The sentences that `kubectl explain` shows, from `descriptions.yaml`; read when a document is first made."""

from functools import cache
from importlib import resources

import yaml


def description(path: str) -> str:
    """What a definition or a field in it is: `PodSpec`, `PodSpec.containers`; empty if there is none."""
    return _all().get(path, "")


def described() -> frozenset[str]:
    """Everything that has a sentence."""
    return frozenset(_all())


@cache
def _all() -> dict[str, str]:
    text = resources.files(__package__).joinpath("descriptions.yaml").read_text(encoding="utf-8")
    sentences: dict[str, str] = yaml.safe_load(text)
    return sentences
