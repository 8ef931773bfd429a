"""The queue: first come first served, bounded in places and time, and a client that leaves frees its place."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.scripted import in_loop

from twinlens.gateway.limits.queue import Queue
from twinlens.gateway.refusal import Refusal


class Places:
    """Backends with so many free places."""

    def __init__(self, free: int) -> None:
        self.free = free

    def take(self) -> int:
        if not self.free:
            raise Refusal(429, "every backend is full", retry_after_s=3.0)
        self.free -= 1
        return self.free


async def waits(queue: Queue, at_least: int) -> None:
    while len(queue) < at_least:
        await asyncio.sleep(0)


def test_those_that_wait_are_served_in_turn() -> None:
    async def run() -> list[int]:
        places, queue, order = Places(0), Queue(3, 60.0), []

        async def one(number: int) -> None:
            await queue.turn(places.take)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(one(number))
                await waits(queue, number + 1)
            with pytest.raises(Refusal) as caught:
                await queue.turn(places.take)
            assert caught.value.retry_after_s == 12.0  # one is free each 3 s, and three wait before
            for _ in range(3):
                places.free += 1
                queue.freed()
                await asyncio.sleep(0)
        assert len(queue) == 0
        return order

    assert in_loop(run()) == [0, 1, 2]


def test_no_places_refuse_at_once_and_a_late_one_with_the_seconds_of_the_law() -> None:
    async def run(queue: Queue) -> Refusal:
        with pytest.raises(Refusal) as caught:
            await queue.turn(Places(0).take)
        assert len(queue) == 0
        return caught.value

    assert in_loop(run(Queue(0, 60.0))).sentence == "every backend is full"
    late = in_loop(run(Queue(1, 0.01)))
    assert (late.status, late.retry_after_s) == (429, 3.0)
    assert "within 0.01 s" in late.sentence


def test_a_client_that_leaves_frees_its_place_and_hands_its_turn_on() -> None:
    async def run() -> int:
        places, queue = Places(0), Queue(2, 60.0)
        first, second = asyncio.create_task(queue.turn(places.take)), asyncio.create_task(queue.turn(places.take))
        await waits(queue, 2)
        places.free = 1
        queue.freed()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert in_loop(run()) == 0


def test_what_is_no_overload_is_no_reason_to_wait() -> None:
    def unknown() -> None:
        raise Refusal(404, "no such model")

    with pytest.raises(Refusal, match="no such model"):
        in_loop(Queue(5, 60.0).turn(unknown))
