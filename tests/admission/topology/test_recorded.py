"""Kueue 0.19.2 placed these pods on these nodes (`tools/placements`): Fairway places them alike, word for word."""

import gzip
import json
from pathlib import Path
from typing import Any

from admission.topology.scenes import asks, topologies
from fairway.admission.topology.assigning import NotPlaced, place_all, replace_failed
from fairway.apis.kueue.placements import DomainPods, Placement

_RECORDED = Path(__file__).parent / "data" / "placements.json.gz"


def _placed_here(case: dict[str, Any]) -> dict[str, Any]:
    world, wanted = topologies(case["levels"], case["nodes"]), asks(case["sets"])
    if "unhealthy" in case:
        found = replace_failed(world, wanted, {case["sets"][0]["name"]: _existing(case)}, case["unhealthy"])
    else:
        found = place_all(world, wanted, empty=case["empty"], balance=case["balanced"])
    if isinstance(found, NotPlaced):
        return {"failure": found.why.message}
    return {
        name: [{"Values": list(one.values), "Count": one.pods} for one in placement.domains]
        for name, placement in found.items()
    }


def _existing(case: dict[str, Any]) -> Placement:
    given = case["existing"]
    domains = tuple(DomainPods(tuple(one["Values"]), one["Count"]) for one in given["Domains"])
    return Placement(tuple(given["Levels"]), domains)


def _placed_by_kueue(result: dict[str, Any]) -> dict[str, Any]:
    if result["failures"]:
        return {"failure": next(iter(result["failures"].values()))}
    return {name: placement["Domains"] for name, placement in result["placements"].items()}


def test_all_recorded_placements_agree() -> None:
    recorded = json.loads(gzip.decompress(_RECORDED.read_bytes()))
    assert len(recorded) >= 500
    different = {
        number: (mine, theirs)
        for number, one in enumerate(recorded)
        if (mine := _placed_here(one["case"])) != (theirs := _placed_by_kueue(one["result"]))
    }
    assert not different
