"""What a job leaves is found and fetched, and a download writes nowhere but where it is told to."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.joblogs import TaskAttempt
from fairway.cli.results import Listing, in_words
from fairway.cli.unpacking import Download, DownloadError

from .conftest import CommandLine

Member = tuple[tarfile.TarInfo, bytes]
SCRIPT = """
mkdir -p out && echo weights > out/model.pt && ln -s out/model.pt latest && ln -s /etc/passwd evil && mkfifo pipe
"""


def test_results_are_listed_fetched_and_go_with_the_job(fairway: CommandLine, tmp_path: Path) -> None:
    fairway("up", "--port", "0")
    (tmp_path / "task.yaml").write_text(f"name: train\nrun: |\n  {SCRIPT.strip()}\n")
    done = fairway.run("jobs", "launch", "-y", str(tmp_path / "task.yaml"))
    assert "SUCCEEDED" in done.stderr
    assert "fairway jobs files 1" in done.stderr

    [found] = json.loads(fairway("jobs", "files", "1", "-o", "json"))
    assert {one["path"]: (one["type"], one["bytes"]) for one in found["items"]} == {
        "evil": ("link", 0),
        "latest": ("link", 0),
        "out": ("directory", 0),
        "out/model.pt": ("file", 8),
        "pipe": ("other", 0),
    }
    assert (found["attempt"], found["rank"], found["files"], found["bytes"]) == (1, 0, 1, 8)
    assert "out/model.pt" in fairway("jobs", "files", "train")
    assert "fairway jobs files 1" in fairway("jobs", "why", "1")

    target = tmp_path / "target"
    said = fairway.run("jobs", "download", "1", "--to", str(target)).stderr
    assert "skipped: evil -> /etc/passwd" in said
    assert sorted(str(one.relative_to(target)) for one in target.rglob("*")) == ["latest", "out", "out/model.pt"]
    assert (target / "latest").read_text() == "weights\n"
    assert "--overwrite" in fairway.refused("jobs", "download", "1", "--to", str(target))
    fairway("jobs", "download", "1", "out/model.pt", "--to", str(target), "--overwrite")
    for path in ("../1", "/etc", "evil/x", "nothing"):
        assert "working directory" in fairway.refused("jobs", "files", "1", path)

    fairway("delete", "managedjob", "--all", "-y")
    deadline = 1000
    while any((fairway.state / "work").iterdir()) and deadline:
        deadline -= 1
        fairway("jobs", "queue")
    assert list((fairway.state / "work").iterdir()) == []


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o4777
    return info, content


def packed(*members: Member) -> Iterator[bytes]:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    data = whole.getvalue()
    return iter([data[at : at + 700] for at in range(0, len(data), 700)])


def downloading(target: Path, **how: Any) -> Download:
    nothing: Any = None
    listing = Listing(TaskAttempt(0, 1), 0, [], 0, 0, truncated=False, note="")
    return Download(nothing, {}, listing, target, overwrite=how.get("overwrite", False))


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([member("../out", content=b"x")], id="a name that leads out"),
        pytest.param([member("/out", content=b"x")], id="an absolute name"),
        pytest.param([member("a", tarfile.SYMTYPE, ".."), member("a/out", content=b"x")], id="through a link"),
        pytest.param([member("out", tarfile.SYMTYPE, "../../etc")], id="a link that leads out"),
        pytest.param(
            [member("a/b", tarfile.SYMTYPE, "."), member("c", tarfile.SYMTYPE, "a/b/../../..")], id="by a detour"
        ),
        pytest.param([member("out", tarfile.LNKTYPE, "../secret")], id="a hard link"),
        pytest.param([member("out", tarfile.CHRTYPE), member("p", tarfile.FIFOTYPE)], id="devices and pipes"),
    ],
)
def test_whatever_a_server_sends_nothing_is_written_outside(tmp_path: Path, members: list[Member]) -> None:
    target = tmp_path / "target"
    (tmp_path / "secret").write_text("mine")
    downloading(target).unpack(packed(*members))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["secret", "target"]
    for one in target.rglob("*"):
        assert one.resolve().is_relative_to(target)
        assert not one.is_char_device()
        assert not one.is_fifo()


def test_a_link_that_is_there_already_is_not_followed(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "out").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    downloading(target, overwrite=True).unpack(packed(member("out/x/y", content=b"x"), member("file", content=b"x")))
    assert list(outside.iterdir()) == []
    assert (target / "file").read_bytes() == b"x"
    assert (target / "file").stat().st_mode & 0o7000 == 0, "no setuid bits"


@pytest.mark.parametrize("sent", [b"".join(packed(member("a", content=b"x" * 5000)))[:1000], b"no archive" * 100])
def test_half_an_archive_is_an_error(tmp_path: Path, sent: bytes) -> None:
    with pytest.raises(DownloadError, match="no archive"):
        downloading(tmp_path / "t").unpack(iter([sent]))


def test_sizes_in_words() -> None:
    assert [in_words(n) for n in (0, 1023, 1536, 20 << 20, 3 << 40)] == ["0B", "1023B", "1.5Ki", "20Mi", "3.0Ti"]
