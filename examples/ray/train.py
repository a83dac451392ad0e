"""A small distributed training on Ray that resumes from its checkpoint: logistic regression, data-parallel, CPU only.

    python train.py --workers 2 --epochs 20 --checkpoint /shared/model.json

Each worker is an actor with its own share of the data. In every epoch the workers compute gradients, the driver
averages them, takes a step and writes a checkpoint. A run that finds a checkpoint continues after its epoch.
"""

import argparse
import json
import math
import random
import time
from pathlib import Path

import ray

FEATURES = 8
EXAMPLES = 2_000
RATE = 0.5

Vector = list[float]


@ray.remote(num_cpus=0.5)
class Worker:
    """Has a share of the data, which a seed makes."""

    def __init__(self, number: int) -> None:
        draw = random.Random(number)  # noqa: S311 - reproducible data
        truth = [math.sin(feature + 1.0) for feature in range(FEATURES)]
        self._data: list[tuple[Vector, float]] = []
        for _ in range(EXAMPLES):
            example = [draw.gauss(0, 1) for _ in range(FEATURES)]
            self._data.append((example, 1.0 if _dot(truth, example) > 0 else 0.0))

    def gradient(self, weights: Vector) -> tuple[Vector, float]:
        """The mean gradient and loss over the share."""
        total, loss = [0.0] * FEATURES, 0.0
        for example, label in self._data:
            predicted = 1 / (1 + math.exp(-_dot(weights, example)))
            loss -= math.log(max(1e-12, predicted if label else 1 - predicted))
            for feature, value in enumerate(example):
                total[feature] += (predicted - label) * value
        return [one / len(self._data) for one in total], loss / len(self._data)


def main() -> None:
    options = _options()
    epoch, weights = _load(options.checkpoint)
    if epoch:
        print(f"resumed from epoch {epoch}", flush=True)
    ray.init()
    workers = [Worker.remote(number) for number in range(options.workers)]
    print(f"training with {len(workers)} workers on {ray.cluster_resources().get('CPU', 0):g} CPUs", flush=True)
    loss = math.nan
    while epoch < options.epochs:
        found = ray.get([worker.gradient.remote(weights) for worker in workers])
        gradient = [sum(column) / len(found) for column in zip(*(one for one, _ in found), strict=True)]
        weights = [weight - RATE * slope for weight, slope in zip(weights, gradient, strict=True)]
        loss, epoch = sum(one for _, one in found) / len(found), epoch + 1
        _save(options.checkpoint, epoch, weights)
        print(f"epoch {epoch} loss {loss:.4f}", flush=True)
        time.sleep(options.pause)
    print(f"finished after epoch {epoch}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a logistic regression on Ray.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint", type=Path, default=None, help="a file that outlives the Ray cluster")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between epochs, to watch it")
    return parser.parse_args()


def _load(checkpoint: Path | None) -> tuple[int, Vector]:
    if checkpoint is None or not checkpoint.exists():
        return 0, [0.0] * FEATURES
    saved = json.loads(checkpoint.read_text())
    return int(saved["epoch"]), [float(weight) for weight in saved["weights"]]


def _save(checkpoint: Path | None, epoch: int, weights: Vector) -> None:
    """Replaced as a whole: a job that is stopped now leaves the last checkpoint."""
    if checkpoint is None:
        return
    partial = checkpoint.with_suffix(".partial")
    partial.write_text(json.dumps({"epoch": epoch, "weights": weights}))
    partial.replace(checkpoint)


def _dot(one: Vector, other: Vector) -> float:
    return sum(left * right for left, right in zip(one, other, strict=True))


if __name__ == "__main__":
    main()
