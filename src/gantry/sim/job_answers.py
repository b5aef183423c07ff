"""Answers about a job: what its log, its results and its opcodes say. Pure; ``client`` draws the conclusions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gantry.jobs import queue
from gantry.sim import facts

LEFT_OVER = (
    "remove disk",
    "could not undo: create disk",
    "could not undo: rename disk",
    "could not undo: take snapshots",
    "a snapshot of",
)
"""Parts of the warnings after which a disk may be left over."""
NO_EFFECT = "OpPrereqError"
"""The class of errors that mean that nothing was changed, unless the job's log has a step that began."""


def may_leave_disks(log: list[list[object]], results: Sequence[object]) -> bool:
    """Return whether a job may have left disks: its log warns of one, or the end of the master interrupted it."""
    return _has_warning(log) or _is_interrupted(results)


def submitted(results: list[object]) -> list[int]:
    """Return the numbers of the jobs that a job has submitted, from its result."""
    result = results[0] if results else None
    jobs = result.get("jobs", ()) if isinstance(result, dict) else ()
    return [number for accepted, number in msgspec.convert(jobs, list[tuple[bool, int]]) if accepted]


def has_no_effect(failure: object, log: list[list[object]]) -> bool:
    """Return whether a job with this failure has changed nothing."""
    return not any(log) and _class(failure) == NO_EFFECT


def described(failure: object) -> str:
    """Return the class and the first text of a failure."""
    parts: Iterable[object] = failure[1] if isinstance(failure, list) and len(failure) == 2 else [failure]
    return f"{_class(failure)}: {next(iter(parts), '')}"


def instances(ops: Iterable[Mapping[str, object]]) -> list[facts.Key]:
    """Return the instances of a job, which the client that submitted its front end may not have claimed."""
    return [("instance", str(op["instance_name"])) for op in ops if "instance_name" in op]


def _has_warning(log: list[list[object]]) -> bool:
    return any("WARNING" in text and any(each in text for each in LEFT_OVER) for text in _messages(log))


def _messages(log: list[list[object]]) -> Iterator[str]:
    for entry in (entry for entries in log for entry in entries):
        if isinstance(entry, list) and len(entry) == 4:
            yield str(entry[3])


def _class(failure: object) -> object:
    return failure[0] if isinstance(failure, list) and failure else None


def _is_interrupted(results: Sequence[object]) -> bool:
    return any(isinstance(result, list) and queue.RESTARTED in str(result) for result in results)
