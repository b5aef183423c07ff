"""Where a candidate's journal leaves that of its master: the last frame that both have. ``candidates.candidate`` asks.

A former master may have frames on its disk that no other node received, and a new one has others in their place. The
chain of hashes makes each common frame the proof that all frames before it are common, so few questions are enough.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from gantry.lib_files import frame
from gantry.rpc import calls
from gantry.runtime import interface
from gantry.state.journal import backlog, journal

STEP_FACTOR = 8
"""The first question is about the last possible frame, the next about one 8 frames before it, then 64, and so on."""

Fetch = Callable[[calls.JournalFetch], Awaitable[tuple[str, ...]]]
"""Asks the candidate."""


async def last_common(
    runtime: interface.Runtime, folder: str, *, serial: int, digest: str, fetch: Fetch
) -> journal.Position | None:
    """Return the last frame that is in the journal in ``folder`` and in the candidate's, which ends as passed.

    None if there is no such frame, or if the journal has the end of the candidate's too. Epochs are not read.
    """
    sections = backlog.ends(runtime.disk, folder, serial=serial)
    known: dict[str, journal.Position] = {}
    while digest and (ends := await runtime.block(lambda: next(sections, None))) is not None:
        known |= {end.digest: end for end in ends}
        if digest in known:
            return None
        number, step = len(ends), 1
        while number:
            number, step = max(number - step, 0), step * STEP_FACTOR
            if lines := await _following(ends[number], fetch):
                return await _last(known, ends[number], lines, fetch)
    return None


async def _last(
    known: Mapping[str, journal.Position], common: journal.Position, lines: Sequence[str], fetch: Fetch
) -> journal.Position | None:
    """Follow the frames of the candidate after a common one, which are ``lines``, up to the last common one."""
    while lines:
        for line in lines:
            following = known.get(frame.digest(line.encode()))
            # A broken node might send the same frames for ever.
            if following is None or following.serial <= common.serial:
                return common
            common = following
        lines = await _following(common, fetch)
    return None


async def _following(end: journal.Position, fetch: Fetch) -> tuple[str, ...]:
    """Return the frames that follow a frame in the candidate's journal; empty if it has no such frame."""
    return await fetch(calls.JournalFetch(after=end.digest, serial=end.serial))
