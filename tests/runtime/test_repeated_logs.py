"""Log lines that clients cause are few."""

import asyncio
import logging

import pytest

from gantry.runtime import repeated_logs
from gantry.runtime.simulated import World


def test_a_cause_has_a_few_lines_and_one_with_the_number_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=2)
        for number in range(314):
            log.write(logging.WARNING, "handshakes failed", "handshake %d failed", number)
        log.write(logging.WARNING, "bodies refused", "a body is refused")
        await asyncio.sleep(repeated_logs.WINDOW_SECONDS + 1)
        log.write(logging.WARNING, "handshakes failed", "handshake failed again")

    with World(seed=1) as world:
        world.run(play())
    assert [record.getMessage() for record in caplog.records] == [
        "handshake 0 failed",
        "handshake 1 failed",
        "a body is refused",
        "handshakes failed: and 312 more like it in 60 s",
        "handshake failed again",
    ]


def test_causes_beyond_the_limit_share_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=1)
        for number in range(repeated_logs.MAX_CAUSES + 50):
            log.write(logging.WARNING, f"requests of {number}", "line")

    with World(seed=1) as world:
        world.run(play())
    assert len(caplog.records) == repeated_logs.MAX_CAUSES + 1
