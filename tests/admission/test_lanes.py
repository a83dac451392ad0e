"""Lanes: alike workloads in their order, whichever way they come and go."""

from hypothesis import given
from hypothesis import strategies as st

from fairway.admission.pending import Lane
from fairway.admission.records import Record
from fairway.testing.builders import workload

NAMES = "abcdefgh"


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9)), max_size=60))
def test_the_first_of_a_lane_is_always_the_oldest_member(deeds: list[tuple[str, int]]) -> None:
    """Each deed is about one workload: it joins with an age, or leaves if it is there."""
    lane = Lane("alike", "")
    records = {name: Record(workload(name, cpu=1), "default/lq") for name in NAMES}
    inside: dict[str, Record] = {}
    for name, age in deeds:
        record = records[name]
        if name in inside:
            lane.drop(inside.pop(name))
        else:
            record.order_key = (0, float(age), name)
            lane.push(record)
            inside[name] = record
        members = sorted(inside.values(), key=lambda record: record.order_key)
        assert lane.top() is (members[0] if members else None)
        assert sorted(lane.members(), key=lambda record: record.order_key) == members
        assert lane.size == len(members)
