"""The Grafana dashboard in examples/ names only metrics that a server exports."""

import json
import re
from pathlib import Path

from fairway.testing.servers import Server

DASHBOARD = Path(__file__).parents[1] / "examples/grafana/dashboard.json"
_METRIC = re.compile(r"\b(?:kueue|fairway)_\w+")
_PARTS = ("_bucket", "_sum", "_count")


def test_every_metric_of_the_dashboard_is_exported(tmp_path: Path) -> None:
    text = DASHBOARD.read_text()
    dashboard = json.loads(text)
    named = {name for panel in dashboard["panels"] for one in panel["targets"] for name in _METRIC.findall(one["expr"])}
    with Server(tmp_path / "state", jobs=True) as server:
        exposition = server.call("GET", "/metrics", accept="text/plain").body
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposition, re.MULTILINE))

    known = {f"{name}{part}" for name, kind in types.items() if kind == "histogram" for part in _PARTS} | set(types)
    assert len(named) > 10
    assert named - known == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
