"""Archives: the same bytes for the same content, without what is ignored, and clear words for what cannot be packed."""

import os
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.cli.packing import LARGE_BYTES, PackingError, pack, size_text


def contents(source: Path, **options: object) -> dict[str, tarfile.TarInfo]:
    with pack(source, **options) as archive, tarfile.open(fileobj=archive.file) as tar:  # type: ignore[arg-type]
        return {one.name: one for one in tar.getmembers()}


def filled(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_names_modes_and_links_are_kept_owners_and_times_are_not(tmp_path: Path) -> None:
    filled(tmp_path, {"b/script": "#!/bin/sh", "a": "text"})
    (tmp_path / "b/script").chmod(0o750)
    (tmp_path / "c").symlink_to("b/script")
    (tmp_path / "empty").mkdir()

    found = contents(tmp_path)

    assert list(found) == ["a", "b", "b/script", "c", "empty"]
    assert found["b/script"].mode == 0o750
    assert (found["c"].type, found["c"].linkname) == (tarfile.SYMTYPE, "b/script")
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in found.values()} == {(0, 0, "", "", 0)}


def test_a_single_file_has_the_name_that_it_is_to_have(tmp_path: Path) -> None:
    filled(tmp_path, {"here.json": "{}"})

    assert list(contents(tmp_path / "here.json", name="there.json")) == ["there.json"]


names = st.text(st.sampled_from("abö. -"), min_size=1, max_size=6).filter(lambda name: name not in {".", ".."})


@given(files=st.dictionaries(names, st.binary(max_size=50), max_size=6), order=st.randoms(use_true_random=False))
def test_the_same_content_is_the_same_archive(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], order: object
) -> None:
    digests = set()
    for turn in range(2):
        folder = tmp_path_factory.mktemp("packed")
        made = sorted(files.items())
        order.shuffle(made)  # type: ignore[attr-defined]
        for name, data in made:
            (folder / name).write_bytes(data)
            (folder / name).chmod(0o644)
            os.utime(folder / name, (turn, turn))
        with pack(folder) as archive:
            digests.add((archive.digest, archive.size))

    assert len(digests) == 1


def test_different_content_is_another_archive(tmp_path: Path) -> None:
    with pack(filled(tmp_path, {"a": "one"})) as one, pack(filled(tmp_path, {"a": "two"})) as two:
        assert one.digest != two.digest


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param({"a": "", ".git/config": "", "sub/.git": ""}, {"a", "sub"}, id="git's own never go"),
        pytest.param({".gitignore": "*.o\n!keep.o", "x.o": "", "keep.o": ""}, {".gitignore", "keep.o"}, id="gitignore"),
        pytest.param(
            {".gitignore": "/out\ncache/\n", "out": "", "sub/out": "", "cache/x": "", "sub/cache/y": ""},
            {".gitignore", "sub", "sub/out"},
            id="at the root, and directories",
        ),
        pytest.param(
            {".gitignore": "*.o", "sub/.gitignore": "!*.o", "a.o": "", "sub/b.o": "", "sub/deep/c.o": ""},
            {".gitignore", "sub", "sub/.gitignore", "sub/b.o", "sub/deep", "sub/deep/c.o"},
            id="an inner file is right about what is inside",
        ),
        pytest.param(
            {".skyignore": "data\n", ".gitignore": "code\n", "data/x": "", "code": ""},
            {".skyignore", ".gitignore", "code"},
            id="skyignore counts instead of gitignore",
        ),
        pytest.param(
            {".skyignore": "", "sub/.gitignore": "*", "sub/x": ""},
            {".skyignore", "sub", "sub/.gitignore", "sub/x"},
            id="also of what is inside",
        ),
    ],
)
def test_what_is_ignored_stays(tmp_path: Path, files: dict[str, str], want: set[str]) -> None:
    assert set(contents(filled(tmp_path, files))) == want


def test_what_has_no_content_is_left_out_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pack(filled(tmp_path, {"file": ""})) as archive:
            assert archive.skipped == ("pipe", "socket")


def test_what_is_too_large_is_refused_with_the_largest_first(tmp_path: Path) -> None:
    filled(tmp_path, {"model/a": "x" * 4000, "model/b": "x" * 3000, "log": "x" * 5000, "code.py": "x"})

    with pytest.raises(PackingError) as refused:
        pack(tmp_path, limit=10_000)

    assert str(refused.value) == (
        f"{tmp_path} holds 12 kB, and the limit is 10 kB; the largest entries: model (7.0 kB), "
        "log (5.0 kB), code.py (1 B). Exclude files with .skyignore, or run the task in the "
        "directory itself with --in-place"
    )


def test_more_files_than_can_be_sent_are_refused_before_all_of_them_were_looked_at(tmp_path: Path) -> None:
    filled(tmp_path, {f"data/{number}": "" for number in range(20)})

    with pytest.raises(PackingError, match=r"has more than 5 files.*\.skyignore.*--in-place"):
        pack(tmp_path, limit_files=5)


def test_something_large_is_announced_before_it_is_packed(tmp_path: Path) -> None:
    told: list[str] = []
    filled(tmp_path, {"code.py": "x", "data/a": ""})
    with (tmp_path / "data" / "a").open("r+b") as sparse:
        sparse.truncate(LARGE_BYTES)
    with pack(tmp_path, notice=told.append):
        pass

    assert told == [f"{tmp_path} holds 105 MB in 3 files; the largest entries: data (105 MB), code.py (1 B)"]


def test_how_far_it_is_can_be_followed(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with pack(filled(tmp_path, {"a": "12", "b": "345"}), progress=lambda files, size: told.append((files, size))):
        pass

    assert told == [(1, 2), (2, 5)]


def test_a_file_that_goes_away_meanwhile_is_told_of(tmp_path: Path) -> None:
    filled(tmp_path, {"a": "1", "b": "2"})

    def remove(files: int, _size: int) -> None:
        if files == 1:
            (tmp_path / "b").unlink()

    with pytest.raises(PackingError, match="b was deleted while it was packed; launch again"):
        pack(tmp_path, progress=remove)


@pytest.mark.parametrize(
    ("size", "want"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (15_000, "15 kB"), (2_500_000_000, "2.5 GB")]
)
def test_sizes_are_for_people(size: int, want: str) -> None:
    assert size_text(size) == want


def test_a_name_that_is_not_utf8_arrives_as_it_is_and_plainly(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("x")

    with pack(tmp_path) as archive, tarfile.open(fileobj=archive.file) as tar:
        (found,) = tar.getmembers()
    assert found.name == name
    assert found.pax_headers == {}, "other programs that unpack it would warn of what they do not know"


def test_a_long_name_and_a_long_link_are_kept(tmp_path: Path) -> None:
    deep = "/".join(["d" * 100] * 3)
    filled(tmp_path, {f"{deep}/file": "x"})
    (tmp_path / "link").symlink_to(f"{deep}/file")

    found = contents(tmp_path)

    assert f"{deep}/file" in found
    assert found["link"].linkname == f"{deep}/file"
