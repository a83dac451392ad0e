"""The command line is instant because of what it does not import: counted, because time is different everywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from client.rest.scripted import write_kubeconfig

_HEAVY = (
    "asyncio", "concurrent.futures", "email", "fairway.apis", "fairway.apis", "fairway.server", "fairway.store",
    "http", "importlib.metadata", "logging", "subprocess", "tempfile", "urllib.request", "xml", "yaml",
)  # fmt: skip

_IMPORTED = """
import sys
{work}
print(*sorted(sys.modules), sep="\\n")
"""


def imported_by(work: str) -> set[str]:
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _IMPORTED.format(work=work)], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("import fairway.client.rest", id="importing it"),
        pytest.param(
            "from fairway.client.rest import open_rest; open_rest({path!r})._access.address()",
            id="opening a kubeconfig as our server writes it, up to the TLS context",
        ),
    ],
)
def test_nothing_heavy_is_loaded(work: str, tmp_path: Path) -> None:
    path = str(write_kubeconfig(tmp_path / "kubeconfig"))

    loaded = imported_by(work.format(path=path))

    assert "fairway.client.rest.api" in loaded
    assert not [name for name in loaded if name in _HEAVY or name.startswith(tuple(f"{one}." for one in _HEAVY))]


def test_yaml_is_loaded_for_files_that_need_it(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("apiVersion: v1\nclusters: []\n")

    assert "yaml" in imported_by(f"from fairway.client.rest.kubeconfig import load; load({str(path)!r})")
