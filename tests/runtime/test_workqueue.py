"""The work queue, on virtual time: single cases first, then any sequence of steps against a model."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.runtime.backoff import Backoff
from fairway.runtime.workqueue import QueueShutDown, WorkQueue
from fairway.testing.clock import VirtualClock, VirtualTimer, settle

Queue = WorkQueue[str]


def on_loop(scenario: Callable[[Queue, VirtualClock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        await scenario(WorkQueue(clock, Backoff(first=1, cap=8)), clock)

    asyncio.run(run())


def test_keys_are_handed_out_in_the_order_they_came_and_once() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        for key in ("a", "b", "a", "c", "b"):
            queue.add(key)

        assert len(queue) == 3
        assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
        assert len(queue) == 0

    on_loop(scenario)


def test_a_key_added_while_it_is_worked_on_comes_again_after_that_work() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0  # no second worker gets it
        queue.done("a")

        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    on_loop(scenario)


def test_done_without_work_is_a_mistake() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        with pytest.raises(ValueError, match="'a' is not being worked on"):
            queue.done("a")

    on_loop(scenario)


def test_a_waiting_worker_is_woken_by_a_key() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await settle()
        queue.add("a")
        await settle()
        assert (first.done(), second.done()) == (True, False)
        queue.add("b")

        assert (await first, await second) == ("a", "b")

    on_loop(scenario)


def test_a_key_is_not_lost_when_the_woken_worker_is_cancelled() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await settle()
        queue.add("a")
        first.cancel()

        assert await second == "a"
        assert first.cancelled()

    on_loop(scenario)


def test_a_cancelled_worker_takes_no_key() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        waiting = asyncio.create_task(queue.get())
        await settle()
        waiting.cancel()
        await settle()
        queue.add("a")

        assert await queue.get() == "a"

    on_loop(scenario)


def test_a_key_that_comes_as_all_workers_are_cancelled_waits_for_the_next() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
        await settle()
        for one in waiting:
            one.cancel()
        queue.add("a")
        ended = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
        assert await queue.get() == "a"

    on_loop(scenario)


def test_of_several_delays_the_earliest_counts() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 5)
        clock.advance(2.9)
        assert len(queue) == 0
        clock.advance(0.1)
        assert await queue.get() == "a"
        queue.done("a")
        clock.advance(100)

        assert len(queue) == 0

    on_loop(scenario)


def test_a_delay_can_be_taken_back_and_leaves_nothing_behind() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        for key in range(500):
            queue.add_after(str(key), 10)
            queue.withdraw(str(key))
        queue.add_after("other", 20)
        queue.withdraw("never wished for")
        assert len(queue._due) < 100
        clock.advance(10)
        assert len(queue) == 0
        clock.advance(10)
        assert await queue.get() == "other"
        assert clock.next_due() is None

    on_loop(scenario)


def test_no_delay_is_now() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        queue.add_after("a", 0)

        assert len(queue) == 1

    on_loop(scenario)


def test_failures_wait_longer_and_longer_up_to_the_cap_until_forgotten() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        async def delay() -> float:
            queue.add_rate_limited("a")
            before = clock.monotonic()
            due = clock.next_due()
            assert due is not None
            clock.advance(due)
            queue.done(await queue.get())
            return clock.monotonic() - before

        assert [await delay() for _ in range(5)] == [1, 2, 4, 8, 8]
        assert queue.failures("a") == 5
        queue.forget("a")
        assert queue.failures("a") == 0
        assert await delay() == 1

    on_loop(scenario)


def test_keys_fail_each_for_itself() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        for _ in range(3):
            queue.add_rate_limited("unlucky")
        queue.add_rate_limited("fine")
        clock.advance(1)

        assert (queue.failures("unlucky"), queue.failures("fine")) == (3, 1)
        assert len(queue) == 2  # the first wish of the unlucky one counts

    on_loop(scenario)


def test_a_shut_down_queue_hands_out_the_rest_and_then_sends_workers_home() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        queue.add("a")
        queue.add_after("delayed", 1)
        queue.shut_down()
        queue.add("too late")
        queue.add_after("too late", 1)
        clock.advance(5)

        assert await queue.get() == "a"
        with pytest.raises(QueueShutDown):
            await queue.get()

    on_loop(scenario)


def test_waiting_workers_go_home_at_shut_down() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await settle()
        queue.shut_down()
        ends = await asyncio.gather(*workers, return_exceptions=True)

        assert [type(end) for end in ends] == [QueueShutDown] * 3

    on_loop(scenario)


@pytest.mark.parametrize(("failures", "delay"), [(0, 0.5), (1, 1), (3, 4), (4, 5), (10_000, 5)])
def test_delays_double_up_to_the_cap(failures: int, delay: float) -> None:
    assert Backoff(first=0.5, cap=5).delay(failures) == delay


@pytest.mark.parametrize(("first", "cap"), [(0, 1), (-1, 1), (2, 1)])
def test_a_back_off_that_would_not_wait_is_refused(first: float, cap: float) -> None:
    with pytest.raises(ValueError, match="0 < first <= cap"):
        Backoff(first, cap)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc")),
    st.tuples(st.just("fail"), st.sampled_from("abc")),
    st.tuples(st.just("later"), st.sampled_from("abc"), st.integers(0, 4)),
    st.tuples(st.just("withdraw"), st.sampled_from("abc")),
    st.tuples(st.just("take")),
    st.tuples(st.just("finish"), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.integers(0, 3)),
)


class Checked:
    """A queue and, beside it, what has to hold: who wants which key to be looked at, and who looks."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue: Queue = WorkQueue(self.clock, Backoff(first=1, cap=4))
        self.wanted: set[str] = set()
        self.wanted_later: dict[str, float] = {}
        self.in_work: list[str] = []

    def add(self, key: str) -> None:
        self.wanted.add(key)
        self.queue.add(key)

    def later(self, key: str, seconds: float) -> None:
        if seconds:
            self.want_after(key, seconds)
        else:
            self.wanted.add(key)
        self.queue.add_after(key, seconds)

    def fail(self, key: str) -> None:
        self.want_after(key, min(4, 2 ** self.queue.failures(key)))
        self.queue.add_rate_limited(key)

    def want_after(self, key: str, seconds: float) -> None:
        due = self.clock.monotonic() + seconds
        self.wanted_later[key] = min(self.wanted_later.get(key, due), due)

    def withdraw(self, key: str) -> None:
        self.wanted_later.pop(key, None)
        self.queue.withdraw(key)

    def collect_due(self) -> None:
        due = {key for key, at in self.wanted_later.items() if at <= self.clock.monotonic()}
        self.wanted |= due
        for key in due:
            del self.wanted_later[key]

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.collect_due()

    async def take(self) -> None:
        if len(self.queue):
            key = await self.queue.get()
            assert key in self.wanted  # and not before its time
            assert key not in self.in_work
            self.wanted.discard(key)
            self.in_work.append(key)

    def finish(self, index: int) -> None:
        if self.in_work:
            self.queue.done(self.in_work.pop(index % len(self.in_work)))

    def check(self) -> None:
        assert len(self.queue) == len(self.wanted - set(self.in_work))

    async def finish_everything(self) -> None:
        self.wait(1000)
        while self.in_work or len(self.queue):
            await self.take()
            self.finish(0)
        assert not self.wanted


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_every_wish_is_followed_by_work_that_starts_after_it_and_no_key_is_worked_on_twice_at_once(
    steps: list[tuple[object, ...]],
) -> None:
    async def run() -> None:
        checked = Checked()
        for name, *arguments in steps:
            done = getattr(checked, str(name))(*arguments)
            if asyncio.iscoroutine(done):
                await done
            checked.check()
        await checked.finish_everything()

    asyncio.run(run())


def test_delayed_keys_share_a_timer_and_come_in_the_order_of_their_times() -> None:
    async def scenario(queue: Queue, clock: VirtualClock) -> None:
        for key, seconds in (("late", 30.0), ("soon", 10.0), ("also soon", 10.0), ("never mind", 20.0), ("now", 0.5)):
            queue.add_after(key, seconds)
        for seconds in range(300, 20, -1):  # each earlier than the one before, and none is kept for good
            queue.add_after("pushed", float(seconds))

        assert len(queue._due) < 100
        found = []
        for _ in range(31):
            clock.advance(1)
            while queue:
                found.append((await queue.get(), clock.monotonic()))
        assert found == [
            ("now", 1),
            ("soon", 10),
            ("also soon", 10),
            ("never mind", 20),
            ("pushed", 21),
            ("late", 30),
        ]
        assert clock.next_due() is None

    on_loop(scenario)


def test_a_timer_that_rings_too_early_is_taken_at_its_word() -> None:
    class Hasty(VirtualClock):
        """Rings a little before the time, as timers of a coarser clock do."""

        def call_later(self, seconds: float, callback: Callable[[], object]) -> VirtualTimer:
            return super().call_later(seconds - 0.001, callback)

    async def run() -> None:
        clock = Hasty()
        queue: Queue = WorkQueue(clock)
        queue.add_after("a", 5)
        queue.add_after("b", 6)
        clock.advance(4.999)
        assert [await queue.get() for _ in range(len(queue))] == ["a"]
        clock.advance(1)
        assert [await queue.get() for _ in range(len(queue))] == ["b"]

    asyncio.run(run())
