"""The feed of events: what its followers get while the master fails, forgets events, or begins with earlier ones."""

import asyncio
import itertools
from collections.abc import Sequence

import msgspec
import pytest

from gantry import errors
from gantry.doors.rapi import feed
from gantry.rpc import luxi
from gantry.runtime import interface, simulated

ANSWER_SECONDS = 0.25
BROKEN = errors.RemoteError("the connection is lost")


def answer(newest: int, *serials: int) -> dict[str, object]:
    return {"events": [{"serial": serial} for serial in serials], "serial": newest}


class Master:
    """A master with these answers and errors, and then none; notes which serial it was asked for, and when."""

    def __init__(self, clock: interface.Clock, *answers: object) -> None:
        self.requested_serials: list[int] = []
        self.times: list[float] = []
        self._clock, self._answers = clock, list(answers)

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        self.requested_serials.append(msgspec.convert(arguments[0], int))
        self.times.append(self._clock.monotonic())
        await self._clock.sleep(ANSWER_SECONDS)
        if not self._answers:
            await asyncio.Event().wait()
        following = self._answers.pop(0)
        if isinstance(following, Exception):
            raise following
        return msgspec.json.decode(msgspec.json.encode(following), type=kind)


async def followed(events: feed.Feed, number: int, after: int | None = None) -> list[int | None]:
    """Return what a follower gets: the serial where it begins, those of events, and None for what is missing."""
    items: list[int | None] = []
    follower = events.follow(after)
    async with asyncio.timeout(100):
        while len(items) < number:
            item = await anext(follower)
            items.append(item.serial if isinstance(item, feed.Event) else item)
    await follower.aclose()
    return items


@pytest.mark.parametrize(
    ("answers", "items", "requested_serials"),
    [
        ([BROKEN, answer(9008), answer(9008, 9007, 9008)], [9007, 9008], [feed.END, 9006]),
        ([BROKEN, BROKEN, answer(9006), answer(9007, 9007)], [9007], [feed.END, feed.END, 9006]),
        ([errors.PrunedError(), answer(9008), answer(9009, 9009)], [None, 9009], [feed.END, 9008]),
        ([BROKEN, answer(9006 + feed.KEPT), answer(9007, 9007)], [9007], [feed.END, 9006]),
        ([BROKEN, answer(9007 + feed.KEPT), answer(11008, 11008)], [None, 11008], [feed.END, 9007 + feed.KEPT]),
        ([BROKEN, answer(9005), answer(9006, 9006)], [None, 9006], [feed.END, 9005]),
        ([answer(9006), answer(9007, 9007)], [9007], [9006]),
        ([answer(9005), answer(9006, 9006)], [None, 9006], [9005]),
    ],
    ids=["few events", "no event", "pruned", "as many as are kept", "too many", "an older state", "silence", "a reset"],
)
def test_a_follower_gets_what_follows_or_that_events_are_missing(
    answers: Sequence[object], items: list[int | None], requested_serials: list[int]
) -> None:
    with simulated.World(seed=1) as world:
        master = Master(world.clock, answer(9005), answer(9006, 9006), *answers)
        events = feed.Feed(master, world.clock)
        assert world.run(followed(events, 2 + len(items))) == [9005, 9006, *items]
        # The feed never had the event before the first one.
        assert world.run(followed(events, 2, after=9004)) == [9004, None]
        assert master.requested_serials[: 3 + len(requested_serials)] == [feed.END, 9005, 9006, *requested_serials]
        pauses = [later - earlier for earlier, later in itertools.pairwise(master.times[2:])]
        retries = [feed.RETRY_SECONDS if isinstance(each, Exception) else 0.0 for each in answers]
        assert pauses[: len(requested_serials)] == pytest.approx(
            [ANSWER_SECONDS + retry for retry in retries][: len(requested_serials)]
        )


def test_a_silent_master_makes_no_follower_forget_its_events() -> None:
    async def scenario() -> list[int | None]:
        async with asyncio.timeout(100):
            first = events.follow(None)
            await anext(first)
            await anext(first)
            await asyncio.sleep(1)
            items = await followed(events, 2, after=9005)
            await first.aclose()
        return items

    with simulated.World(seed=1) as world:
        master = Master(world.clock, answer(9005), answer(9006, 9006), answer(9006))
        events = feed.Feed(master, world.clock)
        assert world.run(scenario()) == [9005, 9006]
        assert master.requested_serials == [feed.END, 9005, 9006, 9006]
