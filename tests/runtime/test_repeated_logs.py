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


def test_a_cause_with_no_more_than_its_lines_has_no_summary(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=2)
        for number in range(2):
            log.write(logging.WARNING, "handshakes failed", "handshake %d failed", number)
        await asyncio.sleep(repeated_logs.WINDOW_SECONDS + 1)

    with World(seed=1) as world:
        world.run(play())
    assert [record.getMessage() for record in caplog.records] == ["handshake 0 failed", "handshake 1 failed"]


def test_the_summary_of_the_causes_that_share_their_lines_has_the_level_of_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=1)
        for number in range(repeated_logs.MAX_CAUSES):
            assert log.is_due(f"requests of {number}")
        assert [log.is_due("requests of one more", logging.ERROR), log.is_due("and another")] == [True, False]
        assert not log.is_due("requests of 7")
        await asyncio.sleep(repeated_logs.WINDOW_SECONDS + 1)
        assert log.is_due("requests of 7")

    with caplog.at_level(logging.INFO), World(seed=1) as world:
        world.run(play())
    assert {(record.levelno, record.getMessage()) for record in caplog.records} == {
        (logging.INFO, "requests of 7: and 1 more like it in 60 s"),
        (logging.ERROR, "others: and 1 more like it in 60 s"),
    }


def test_a_line_has_the_traceback_of_its_exception_only_if_the_caller_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        log = repeated_logs.RepeatedLog(logging.getLogger("test"))
        try:
            raise ValueError("bad")
        except ValueError:
            log.write(logging.WARNING, "a", "short")
            log.write(logging.WARNING, "b", "long", traceback=True)

    with World(seed=1) as world:
        world.run(play())
    assert ["ValueError: bad" in (record.exc_text or "") for record in caplog.records] == [False, True]
