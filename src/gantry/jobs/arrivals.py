"""Accepted jobs until they are durable. Those that need not wait are begun at once, and cost one commit less.

A job that is begun has its locks and is ``running`` in the commit that accepts it. Nothing of it is visible or executed
before that commit is durable. Jobs arrive in order: one that cannot begin takes a place as if it had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry.jobs import dependencies, processor
from gantry.model import job as jobs
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Arrival:
    """Jobs of one submission; ``begun`` has some of them by number."""

    jobs: Sequence[jobs.Job]
    begun: Mapping[int, processor.Begun]

    def changes(self) -> list[states.Change]:
        """Return the changes that store the jobs."""
        begun = self.begun
        return [states.Put(begun[job.id].record.current if job.id in begun else job) for job in self.jobs]


class Arrivals:
    """All submissions that are not durable: how many ``jobs`` they have, and which of them are ``begun``."""

    def __init__(self, runner: processor.Processor) -> None:
        self._processor = runner
        self.jobs = 0
        self.begun = set[int]()

    def accept(self, accepted: Sequence[jobs.Job], *, capacity: int) -> Arrival:
        """Begin some of the jobs, in the order of their priorities; at most ``capacity`` of them may be started.

        Call ``end`` when they are durable, or ``abandon`` if they could not be stored.
        """
        begun = dict[int, processor.Begun]()
        for job in sorted(accepted, key=lambda job: (job.priority, job.id))[: max(0, capacity - self.jobs)]:
            if not any(dependencies.of(job)) and (started := self._processor.try_begin(job)):
                begun[job.id] = started
        self.jobs += len(accepted)
        self.begun.update(begun)
        return Arrival(accepted, begun)

    def end(self, arrival: Arrival) -> None:
        """Count the jobs no longer."""
        self.jobs -= len(arrival.jobs)
        self.begun.difference_update(arrival.begun)

    def abandon(self, arrival: Arrival) -> None:
        """Release the locks of jobs that could not be stored."""
        self.end(arrival)
        for started in arrival.begun.values():
            self._processor.abandon(started)
