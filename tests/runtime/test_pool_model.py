"""Every interleaving of a small model of the pool (see docs/pool.md): no lost wake-up, each block once, and stop.

Each thread is a generator that yields before every access to shared memory, so that one step is one atomic access; the
futex is modelled as the kernel has it: comparing and going to sleep are one step.  States are explored depth first, by
replaying the schedules that lead to them.

Launches are given by their number of blocks; negative if the host must not help with them, but have the stand-in do so.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

SLOTS = 2
CLOSED = 99
Thread = Generator[str, None, None]


class State:
    """The pool's memory."""

    def __init__(self, blocks: tuple[int, ...], faults: frozenset[str]) -> None:
        self.submitted = self.completed = self.idle = self.waiting = self.stop = 0
        self.helper = self.asked = self.aside = 0
        self.unattended = [False] * SLOTS
        self.zero_runs = False  # a block runs under number 0
        self.ticket = [(0, CLOSED)] * SLOTS
        self.blocks = [0] * SLOTS
        self.unfinished = [0] * SLOTS
        self.asleep: dict[str, str] = {}  # thread -> word
        self.plan = blocks
        self.ran: list[tuple[int, int]] = []
        self.faults = faults

    def wake(self, word: str) -> None:
        for name in [name for name, on in self.asleep.items() if on == word]:
            del self.asleep[name]


def sleep(s: State, name: str, word: str, value: int, sleepers: str) -> Thread:
    if "no sleepers" not in s.faults:
        yield "count"
        setattr(s, sleepers, getattr(s, sleepers) + 1)
    yield "look again"
    if getattr(s, word) == value:
        yield "futex"
        if getattr(s, word) == value or "no compare" in s.faults:
            s.asleep[name] = word
            yield "asleep"
    if "no sleepers" not in s.faults:
        yield "uncount"
        setattr(s, sleepers, getattr(s, sleepers) - 1)


def take(s: State, n: int, zero: bool) -> Generator[str, None, bool]:
    if not zero:
        return (yield from run_block(s, n, zero))
    if "no claim" not in s.faults:
        yield "claim"
        if s.helper:
            return False
        s.helper = 1
    ran = yield from run_block(s, n, zero)
    if "no claim" not in s.faults:
        yield "release"
        s.helper = 0
    return ran


def run_block(s: State, n: int, zero: bool) -> Generator[str, None, bool]:
    slot = n % SLOTS
    yield "ticket"
    ticket = s.ticket[slot]
    while True:
        yield "blocks"
        if ticket[0] != n or ticket[1] >= s.blocks[slot]:
            return False
        yield "exchange"
        if s.ticket[slot] == ticket:
            s.ticket[slot] = (ticket[0], ticket[1] + 1)
            break
        ticket = s.ticket[slot]
    assert s.completed == n - 1, "a block ran before its turn"
    s.ran.append((n, ticket[1]))
    assert not (zero and s.zero_runs), "two threads have one number"
    s.zero_runs |= zero
    yield "finish"
    s.zero_runs &= not zero
    s.unfinished[slot] -= 1
    if s.unfinished[slot] == 0:
        yield "publish"
        s.completed = n
        yield "sleepers"
        if s.waiting:
            yield "wake"
            s.wake("completed")
    return True


def thread(s: State, name: str, zero: bool, wanted: str, sleepers: str) -> Thread:
    while True:
        yield "wanted"
        last = getattr(s, wanted)
        yield "stop"
        if s.stop:
            return
        yield "completed"
        completed = s.completed
        if completed < last:
            if (yield from take(s, completed + 1, zero)):
                continue
            yield from sleep(s, name, "completed", completed, "waiting")
        else:
            yield from sleep(s, name, wanted, last, sleepers)


def host(s: State, name: str) -> Thread:
    for n, blocks in enumerate(s.plan, 1):
        while True:  # the ring must have room
            yield "room"
            if n - s.completed <= SLOTS:
                break
            yield from help_or_sleep(s, name, n - SLOTS)
        slot = n % SLOTS
        if "not closed" not in s.faults:
            yield "close"
            s.ticket[slot] = (n, CLOSED)
        yield "fields"
        s.blocks[slot] = abs(blocks)
        yield "unfinished"
        s.unfinished[slot] = abs(blocks)
        yield "unattended"
        s.unattended[slot] = blocks < 0
        yield "open"
        s.ticket[slot] = (n, 0)
        yield "submit"
        s.submitted = n
        yield "sleepers"
        if s.idle:
            yield "wake"
            s.wake("submitted")
    while s.completed < len(s.plan):
        yield from help_or_sleep(s, name, len(s.plan))
    yield "stop"
    s.stop = 1
    yield "change submitted"
    s.submitted += 1
    yield "wake"
    s.wake("submitted")
    yield "change completed"
    s.completed += 1
    yield "wake"
    s.wake("completed")
    yield "change asked"
    s.asked += 1
    yield "wake"
    s.wake("asked")


def help_or_sleep(s: State, name: str, target: int) -> Thread:
    yield "completed"
    completed = s.completed
    if completed >= target:
        return
    yield "unattended"
    if not s.unattended[(completed + 1) % SLOTS]:
        if (yield from take(s, completed + 1, True)):
            return
    else:
        yield "ask"
        asked, s.asked = s.asked, max(s.asked, target)
        if asked < target:
            yield "aside"
            if s.aside:
                yield "wake"
                s.wake("asked")
    yield from sleep(s, name, "completed", completed, "waiting")


class Simulation:
    """A state with its threads, some steps along."""

    def __init__(self, blocks: tuple[int, ...], workers: int, faults: frozenset[str],
                 schedule: tuple[str, ...]) -> None:
        state = self.state = State(blocks, faults)
        self.threads = {"h": host(state, "h"), **{f"w{k}": thread(state, f"w{k}", False, "submitted", "idle")
                                                  for k in range(workers)}}
        if workers and min(blocks) < 0:
            self.threads["z"] = thread(state, "z", True, "asked", "aside")
        elif not workers:  # one thread in all
            self.threads["z"] = thread(state, "z", True, "submitted", "idle")
        for each in self.threads.values():
            next(each)
        for name in schedule:
            self.step(name)

    def step(self, name: str) -> None:
        try:
            next(self.threads[name])
        except StopIteration:
            del self.threads[name]

    def ready(self) -> list[str]:
        return [name for name in self.threads if name not in self.state.asleep]

    def key(self) -> Any:
        """Everything that the future depends on."""
        s = self.state
        frames = []
        for name, each in sorted(self.threads.items()):
            chain: Any = each
            while chain is not None and chain.gi_frame is not None:
                values = {k: v for k, v in chain.gi_frame.f_locals.items() if isinstance(v, (int, tuple))}
                frames.append((name, chain.gi_frame.f_lasti, tuple(sorted(values.items()))))
                chain = chain.gi_yieldfrom
        return (s.submitted, s.completed, s.idle, s.waiting, s.stop, s.helper, s.asked, s.aside, s.zero_runs,
                tuple(s.unattended), tuple(s.ticket), tuple(s.blocks),
                tuple(s.unfinished), tuple(sorted(s.asleep.items())), tuple(sorted(s.ran)), tuple(frames))


def explore(blocks: tuple[int, ...], workers: int, faults: frozenset[str] = frozenset(), limit: int = 10**6) -> int:
    """Visit every state that can be reached; returns their number."""
    seen: set[Any] = set()
    stack: list[tuple[str, ...]] = [()]
    expected = sorted((n, block) for n, count in enumerate(blocks, 1) for block in range(abs(count)))
    while stack:
        schedule = stack.pop()
        simulation = Simulation(blocks, workers, faults, schedule)
        while True:
            key = simulation.key()
            if key in seen:
                break
            seen.add(key)
            assert len(seen) < limit
            ready = simulation.ready()
            if not ready:
                assert not simulation.threads, f"asleep for ever: {simulation.state.asleep} after {schedule}"
                assert sorted(simulation.state.ran) == expected, "a block was lost or ran twice"
                break
            stack += [(*schedule, name) for name in ready[1:]]
            schedule = (*schedule, ready[0])
            simulation.step(ready[0])
    return len(seen)


@pytest.mark.parametrize("blocks", ((1,), (2,), (1, 1)))
def test_one_worker(blocks: tuple[int, ...]) -> None:
    assert explore(blocks, 1) > 50


@pytest.mark.parametrize("blocks", ((-1,), (-2,), (-1, -1, -1)))
def test_one_thread_in_all(blocks: tuple[int, ...]) -> None:
    """The stand-in works off what is queued, and the host only waits."""
    assert explore(blocks, 0) > 50


@pytest.mark.parametrize("blocks", ((-1,), (-2,)))
def test_a_worker_and_the_stand_in(blocks: tuple[int, ...]) -> None:
    assert explore(blocks, 1) > 1000


@pytest.mark.exhaustive
@pytest.mark.parametrize("blocks", ((-2, 1), (1, -2), (-1, -1), (2, -1, 1)))
def test_launches_with_and_without_the_host(blocks: tuple[int, ...]) -> None:
    assert explore(blocks, 1, limit=4 * 10**6) > 1000


def test_the_model_finds_two_threads_with_one_number() -> None:
    with pytest.raises(AssertionError, match="two threads have one number"):
        explore((-1, 2), 1, frozenset(["no claim"]))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("blocks", "workers"), (((1, 2, 1), 1), ((2, 1, 2, 3), 1), ((1, 1), 2), ((2,), 2)))
def test_recycled_slots_and_two_workers(blocks: tuple[int, ...], workers: int) -> None:
    assert explore(blocks, workers) > 1000


@pytest.mark.parametrize("fault", ("no compare", "no sleepers"))
def test_the_model_finds_a_lost_wake_up_when_there_is_one(fault: str) -> None:
    with pytest.raises(AssertionError, match="asleep for ever"):
        explore((1, 1), 1, frozenset([fault]))


@pytest.mark.exhaustive
def test_the_model_finds_a_recycled_slot_that_is_not_closed() -> None:
    with pytest.raises(AssertionError):
        explore((1, 1, 3), 2, frozenset(["not closed"]), 4 * 10**6)
