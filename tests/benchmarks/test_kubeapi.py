"""The benchmark on a real kube-apiserver says what is missing where there is none."""

from pathlib import Path

import pytest
from bench import kubeapi


def test_without_the_binaries_there_is_one_line_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_CLUSTER_CACHE", str(tmp_path))

    [line] = kubeapi.lines(10)

    assert line.figure == "left out: etcd and kube-apiserver are not built (python -m tools.cluster build)"
    assert line.met is None
