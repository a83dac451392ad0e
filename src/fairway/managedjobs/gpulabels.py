"""GPUs by model on the nodes of a cluster: the labels that say what a node has, each with names of its own."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairway.apis.core.accelerators import LABEL, model_of

GKE: Final = "cloud.google.com/gke-accelerator"
KARPENTER: Final = "karpenter.k8s.aws/instance-gpu-name"
KEYS: Final = (
    LABEL,
    GKE,
    "nvidia.com/gpu.product",
    KARPENTER,
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
)
"""SkyPilot, GKE, NVIDIA's GPU operator, Karpenter, EKS's autoscaler, CoreWeave."""

_GKE_OLD: Final = frozenset({"k80", "p4", "p100", "v100", "t4", "a100"})
"""Models that GKE calls `nvidia-tesla-…`."""


def labels_for(models: Iterable[str], nodes: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """Label keys and values of nodes with one of the models.

    The values that existing nodes have, and the fixed ones of SkyPilot, GKE and Karpenter, by which an autoscaler
    knows what node to add.
    """
    wanted = {name for model in models if (name := model_of(model))}
    found: dict[str, list[str]] = {key: [] for key in KEYS}
    for model in sorted(wanted):
        found[LABEL].append(model)
        found[GKE].append(f"nvidia-{'tesla-' if model in _GKE_OLD else ''}{model}")
        found[KARPENTER].append(model)
    for labels in nodes:
        for key in KEYS:
            value = labels.get(key)
            if value and value not in found[key] and model_of(value) in wanted:
                found[key].append(value)
    return {key: values for key, values in found.items() if values}


def missing(models: Iterable[str], nodes: Iterable[Mapping[str, str]]) -> str:
    """A sentence if no node is labelled with one of the models; empty otherwise."""
    asked = list(models)
    wanted = {model_of(model) for model in asked}
    known = sorted({model_of(labels[key]) for labels in nodes for key in KEYS if labels.get(key)})
    if not wanted or wanted.intersection(known):
        return ""
    there = f"nodes have {', '.join(known)}" if known else "no node has a label that names its GPU"
    return f"no node has {' or '.join(asked)} GPUs: {there}"
