"""Scripts as arguments: they arrive as they were written, however long they are and whatever they hold."""

import gzip
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.managedjobs.scripts import files_command, run_command, setup_command, verbatim
from fairway.runner.pods.expansion import expanded

_TEXT = st.text(st.sampled_from("$()HOMEx \nü") | st.characters(exclude_categories=["Cs"]))


@given(_TEXT)
def test_text_comes_out_of_the_replacing_of_references_as_it_went_in(text: str) -> None:
    assert expanded(verbatim(text), {"HOME": "replaced", "": "replaced", "x": "replaced"}) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("echo $HOME ${A}", "echo $HOME ${A}", id="what would not be replaced is written as it is"),
        pytest.param("$(HOME)", "$$(HOME)", id="a reference"),
        pytest.param("kill $$", "kill $$$", id="two dollar signs"),
        pytest.param("cost: 5$", "cost: 5$", id="a dollar sign at the end"),
    ],
)
def test_what_is_written_into_the_pod(text: str, written: str) -> None:
    assert verbatim(text) == written


@pytest.mark.parametrize("sign", ["x", "ü", "𝄞", "$"])
@pytest.mark.parametrize("size", [1, 131_071, 131_072, 500_000])
def test_no_argument_is_longer_than_a_program_may_have(sign: str, size: int) -> None:
    script = sign * (size // len(sign.encode()))
    for command in (
        run_command(script, own_home=False, together=False),
        setup_command(script, own_home=True),
    ):
        arguments = [expanded(argument, {}) for argument in command]
        assert "".join(arguments[5:]) == script
        assert all(len(argument.encode()) < 128 * 1024 for argument in arguments)
        assert (len(arguments) == 6) is (len(script.encode()) < 128 * 1024), "in one piece if that is possible"


def test_the_users_words_are_never_part_of_our_script() -> None:
    ours = [
        run_command("USERS", own_home=True, together=True)[3],
        setup_command("USERS", own_home=True)[3],
        files_command([("USERS", "USERS")])[3],
    ]
    assert not any("USERS" in script for script in ours)


def _member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, size, link, 0o644
    return info.tobuf()


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param(
            [_member("a"), _member("l", tarfile.SYMTYPE, link="a"), _member("d", tarfile.DIRTYPE)], "", id="well"
        ),
        pytest.param([_member("a"), _member("null", tarfile.CHRTYPE)], "devices or pipes among them", id="a device"),
        pytest.param([_member("disk", tarfile.BLKTYPE)], "devices or pipes among them", id="a disk"),
        pytest.param([_member("pipe", tarfile.FIFOTYPE)], "devices or pipes among them", id="a pipe"),
        pytest.param([_member("bomb", size=21 << 30)], "more than 21474836480 bytes", id="a bomb"),
    ],
)
def test_archives_are_looked_through_before_they_are_unpacked(tmp_path: Path, members: list[bytes], want: str) -> None:
    archive, target = tmp_path / "a.tar.gz", tmp_path / "target"
    archive.write_bytes(gzip.compress(b"".join(members) + bytes(1024)))
    command = [expanded(one, {}) for one in files_command([(str(archive), str(target))])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert (done.returncode == 0) == (want == "")
    assert want in done.stderr
    assert sorted(one.name for one in target.iterdir()) == ["a", "d", "l"] if not want else not target.exists()
