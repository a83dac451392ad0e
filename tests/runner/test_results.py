"""Which working directories of ended jobs are kept: the newest, within limits of age, number and size."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.runner.directories import Directories
from fairway.runner.results import Kept, Measured, Note, Retention, measure, retire

DAY = 86_400.0
NOW = 1_000 * DAY


def kept(uid: str, *, owner: str = "job", part: str = "0 0 1", size: int = 1, age_days: float = 0.0) -> Measured:
    place = Kept(Path("/work") / uid, Path("/logs") / uid, owner, part)
    return Measured(place, Note(bytes=size, at=NOW - age_days * DAY))


@pytest.mark.parametrize(
    ("retention", "measured", "want"),
    [
        pytest.param(Retention(), [kept("a"), kept("b", owner="other")], {}, id="all is kept by default"),
        pytest.param(
            Retention(max_age_days=7),
            [kept("a", age_days=6), kept("b", age_days=8, owner="other")],
            {"b": "files are kept for 7 days"},
            id="what is too old goes",
        ),
        pytest.param(
            Retention(max_attempts=2),
            [kept(f"a{n}", part=f"0 0 {n}", age_days=10 - n) for n in range(1, 5)]
            + [kept("w", part="0 1 1", age_days=9)],
            dict.fromkeys(("a2", "a1"), "only the files of the last 2 attempts are kept"),
            id="of each node the last attempts stay",
        ),
        pytest.param(
            Retention(max_bytes=10),
            [kept("a", size=6), kept("b", owner="o", size=6, age_days=1), kept("c", owner="p", size=4, age_days=2)],
            {"b": "10 bytes of newer files are kept in all"},
            id="what does not fit beside the newer goes",
        ),
        pytest.param(
            Retention(max_count=1),
            [kept("a"), kept("b", owner="other", age_days=1)],
            {"b": "the files of 1 newer attempts are kept"},
            id="the number is limited",
        ),
    ],
)
def test_what_exceeds_the_limits_goes_oldest_first(
    retention: Retention, measured: list[Measured], want: dict[str, str]
) -> None:
    assert {one.uid: why for one, why in retention.exceeding(measured, NOW)} == want


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), max_size=30))
def test_what_stays_is_within_every_limit(sizes: list[tuple[int, int]]) -> None:
    retention = Retention(max_age_days=30, max_count=10, max_bytes=200)
    measured = [kept(str(n), owner=str(n), size=size, age_days=age) for n, (size, age) in enumerate(sizes)]
    gone = {one.uid for one, _ in retention.exceeding(measured, NOW)}
    stays = [one for one in measured if one.kept.uid not in gone]
    assert len(stays) <= 10
    assert sum(one.note.bytes for one in stays) <= 200
    assert all(one.note.at >= NOW - 30 * DAY for one in stays)


def test_a_directory_is_measured_once_and_its_removal_leaves_a_note(tmp_path: Path) -> None:
    one = Kept(tmp_path / "work" / "u", tmp_path / "logs" / "u", "job", "0 0 1")
    for place in (one.work, one.logs):
        place.mkdir(parents=True)
    (one.work / "model").write_bytes(b"x" * 100_000)
    (one.work / "out").symlink_to("/usr")
    [(_, note)] = measure([one], NOW)
    assert 100_000 <= note.bytes < 200_000, "links are not followed"
    (one.work / "later").write_bytes(b"x" * 100_000)
    assert measure([one], NOW + 5) == [(one, note)]

    removed: list[Path] = []
    retire(one.work, one, "files are kept for 7 days", removed.append)
    assert removed == [one.work]
    [(_, after)] = measure([one], NOW)
    assert after.removed == "the files of this attempt were removed: files are kept for 7 days"


def test_what_a_managed_job_leaves_stays_when_its_pod_is_gone_and_of_other_pods_nothing_does(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.make()
    owner = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "uid": "job", "controller": True}
    for uid in ("managed", "idle", "other"):
        metadata = {"uid": uid, "namespace": "default", "annotations": {"fairway.dev/keep-logs": "true"}}
        directories.keep_logs({"metadata": metadata | ({"ownerReferences": [owner]} if uid != "other" else {})})
        (tmp_path / "work" / uid).mkdir()
        if uid != "idle":
            (tmp_path / "work" / uid / "model").touch()

    assert directories.uids() == {"other"}, "what stays is not taken for a leftover after a restart"
    for uid in ("managed", "idle", "other"):
        directories.remove(uid, "default")
    assert (tmp_path / "work" / "managed" / "model").exists()
    assert not (tmp_path / "work" / "idle").exists()
    assert tmp_path / "work" / "other" in directories.doomed
    assert tmp_path / "work" / "managed" not in directories.doomed
