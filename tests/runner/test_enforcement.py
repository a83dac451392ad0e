"""What becomes of requests and limits: a kubelet's meaning for pods, a promise for managed jobs."""

from typing import Any

import pytest

from fairway.runner.enforcement import Enforcement
from fairway.runner.processes import ProcessLimits

MANAGED = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "name": "j", "uid": "u", "controller": True}
ASKED = {"requests": {"cpu": "500m", "memory": "1Gi"}}
BOTH = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("enforcement", "managed", "resources", "want"),
    [
        pytest.param(
            Enforcement(),
            True,
            ASKED,
            ProcessLimits(cpu_share_millis=500, memory_bytes=GIGABYTE),
            id="a task by default",
        ),
        pytest.param(
            Enforcement(cpu="limit"),
            True,
            ASKED,
            ProcessLimits(cpu_millis=500, cpu_share_millis=500, memory_bytes=GIGABYTE),
            id="a task with hard limits",
        ),
        pytest.param(Enforcement(cpu="none", memory="none"), True, ASKED, ProcessLimits(), id="a task without any"),
        pytest.param(Enforcement(), False, ASKED, ProcessLimits(cpu_share_millis=500), id="a pod that only requests"),
        pytest.param(
            Enforcement(),
            False,
            BOTH,
            ProcessLimits(cpu_millis=2000, cpu_share_millis=500, memory_bytes=2 * GIGABYTE),
            id="a pod with limits",
        ),
        pytest.param(
            Enforcement(cpu="none", memory="none"),
            False,
            BOTH,
            ProcessLimits(cpu_millis=2000, memory_bytes=2 * GIGABYTE),
            id="limits that a pod asks for are always its limits",
        ),
        pytest.param(Enforcement(), True, {}, ProcessLimits(), id="nothing asked for"),
        pytest.param(
            Enforcement(), True, {"requests": {"cpu": "0", "memory": "0"}}, ProcessLimits(), id="zero is nothing"
        ),
    ],
)
def test_what_is_enforced(
    enforcement: Enforcement,
    managed: bool,  # noqa: FBT001
    resources: dict[str, Any],
    want: ProcessLimits,
) -> None:
    container = {"name": "run", "resources": resources}
    metadata = {"ownerReferences": [MANAGED]} if managed else {}
    assert enforcement.limits({"metadata": metadata, "spec": {"containers": [container]}}, container) == want
