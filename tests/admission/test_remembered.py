"""What the engine remembers of pod templates: a bounded number, and nothing changes for what was forgotten."""

from fairway.admission.config import Resources
from fairway.admission.records import Demands
from fairway.admission.shapes import MOST_KEPT, Shapes
from fairway.apis.kueue.objects import PodSet, PodTemplate


def pods(cpu: int) -> PodTemplate:
    return PodTemplate(spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}]})


def test_the_shapes_and_demands_that_are_kept_are_bounded() -> None:
    shapes = Shapes(Resources())
    demands = Demands(shapes)
    first = demands.of((PodSet(template=pods(1)),), {})
    for cpu in range(2, MOST_KEPT + 100):
        demands.of((PodSet(template=pods(cpu)),), {})

    assert len(shapes._by_content) == MOST_KEPT
    assert len(demands._known) == MOST_KEPT
    again = demands.of((PodSet(template=pods(1)),), {})
    assert again is not first
    assert again.key == first.key


def test_shapes_that_kueue_treats_as_equivalent_have_one_key() -> None:
    shapes = Shapes(Resources())
    named = PodTemplate(spec={"containers": [{"name": "other", "resources": {"requests": {"cpu": "1m"}}}]})

    assert shapes.of(pods(1)).key == shapes.of(named).key
    assert shapes.of(pods(1)).key != shapes.of(pods(2)).key
