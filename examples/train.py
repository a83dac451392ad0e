"""A training run in miniature: fits a line to noisy points by gradient descent, and can be stopped at any moment.

After every step the model is saved in the checkpoint directory; a run that finds one there goes on from it. Fairway
gives all attempts of a job the same directory ($FAIRWAY_CHECKPOINT_DIR), so a preemption costs at most one step.
"""

import argparse
import json
import os
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SLOPE, INTERCEPT, NOISE, POINTS = 3.0, -1.0, 0.1, 200
RATE = 0.2


@dataclass
class Model:
    """The line so far."""

    step: int = 0
    slope: float = 0.0
    intercept: float = 0.0

    def improve(self, points: list[tuple[float, float]]) -> float:
        """One step of gradient descent; the mean squared error before it."""
        errors = [(x, self.slope * x + self.intercept - y) for x, y in points]
        self.slope -= RATE * sum(2 * error * x for x, error in errors) / len(points)
        self.intercept -= RATE * sum(2 * error for _, error in errors) / len(points)
        self.step += 1
        return sum(error * error for _, error in errors) / len(points)


def load(file: Path) -> Model:
    """The model of the attempt before, or a new one."""
    return Model(**json.loads(file.read_text())) if file.exists() else Model()


def save(model: Model, file: Path) -> None:
    """Whole or not at all: a run that is killed while it writes leaves the model of the step before."""
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(asdict(model)))
    unfinished.replace(file)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--seconds", type=float, default=0.5, help="how long a step takes at least")
    options.add_argument("--resume-from", type=Path, default=Path(), metavar="DIR", help="where the model is saved")
    given = options.parse_args()

    draw = random.Random(1)  # noqa: S311 - the same points in every attempt
    points = [(x, SLOPE * x + INTERCEPT + draw.gauss(0, NOISE)) for x in (draw.uniform(-1, 1) for _ in range(POINTS))]
    given.resume_from.mkdir(parents=True, exist_ok=True)
    file = given.resume_from / "model.json"
    model = load(file)
    if model.step:
        print(f"attempt {os.environ.get('FAIRWAY_ATTEMPT', '?')} resumes after step {model.step}", flush=True)
    while model.step < given.steps:
        time.sleep(given.seconds)
        loss = model.improve(points)
        save(model, file)
        print(f"step {model.step} of {given.steps}, loss {loss:.4f}", flush=True)
    print(f"y = {model.slope:.2f} x {model.intercept:+.2f}")


if __name__ == "__main__":
    main()
