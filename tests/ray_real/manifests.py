"""The RayJob of the guide, with a program that needs no GPU: the training of examples/ray."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "examples" / "ray" / "train.py"


def training_job(kind: str, checkpoints: Path, epochs: int, gate: Path | None = None, **spec: Any) -> dict[str, Any]:
    """`kind` is `dev` or `prod`; each RayJob has a checkpoint of its own, which all its attempts share.

    How long an attempt pauses after each epoch is in the file `pause` when it starts. With a gate it trains for one
    epoch, and goes on when there is such a file.
    """
    # The cluster of an attempt has the name of the RayJob, a dash and five characters.
    command = (
        f"python {TRAINING} --workers 2 --pause $(cat {checkpoints}/pause) "
        f"--checkpoint {checkpoints}/${{RAY_CLUSTER_NAME%-*}}.json --epochs"
    )
    held = f"{command} 1; until [ -e {gate} ]; do sleep 0.2; done; " if gate is not None else ""
    entrypoint = f"bash -c '{held}exec {command} {epochs}'"
    resources = {
        "limits": {"memory": "8G", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "2", "memory": "8G", "nvidia.com/gpu": "1"},
    }
    head = {"containers": [{"name": "ray-head", "image": "rayproject/ray", "resources": resources}]}
    submitter = {"restartPolicy": "Never", "containers": [{"name": "submitter", "image": "rayproject/ray"}]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "generateName": f"{kind}-pytorch-text-classifier-",
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-queue",
                "kueue.x-k8s.io/priority-class": f"{kind}-priority",
            },
        },
        "spec": {
            "shutdownAfterJobFinishes": True,
            "entrypoint": entrypoint,
            # Without requests: the guide's quota is exactly that of the head.
            "submitterPodTemplate": {"spec": submitter},
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}}},
            **spec,
        },
    }
