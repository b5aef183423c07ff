"""The whole state as it goes to a master candidate: in parts, so that a message has a bound and the cluster has none.

``transaction`` makes a copy, ``replication`` sends its parts in order (call CheckpointStore). A job's file is encoded
when its part is asked for. The newest archived jobs go along, though they are no part of the state: who was away while
they ended and were archived has no record of them.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from gantry.rpc import calls
from gantry.state import archive, jobfiles, journal, snapshot

PART = 8 << 20
"""Characters of files in one part. Quoted and encoded they may be some times as many bytes; a node takes 64 MiB."""

ARCHIVED = 1000
"""How many archived jobs go along at most: a bound, so that the cost does not grow with the years."""

_CONFIG = "config.data"


@dataclass(frozen=True)
class Copy:
    """The state at ``position``; ``config`` is the ``config.data`` of that moment, ``archived`` what goes along."""

    state: snapshot.Snapshot
    position: journal.Position
    config: str
    archived: archive.Archive

    def parts(self) -> Iterator[calls.CheckpointStore]:
        """Yield what to send, in order: the queue's files, then ``config.data``; a small state is one part."""
        digest = hashlib.sha256(self.config.encode()).hexdigest()
        number, size, jobs, config = 0, 0, dict[str, str](), ""
        for name, content in self._pieces():
            if size and size + len(content) > PART:
                yield self._part(number, digest, jobs=jobs, config=config)
                number, size, jobs, config = number + 1, 0, {}, ""
            if name == _CONFIG:
                config += content
            else:
                jobs[name] = content
            size += len(content)
        yield self._part(number, digest, jobs=jobs, config=config, last=True)

    def _part(
        self, number: int, digest: str, *, jobs: dict[str, str], config: str, last: bool = False
    ) -> calls.CheckpointStore:
        epoch = self.position.epoch
        return calls.CheckpointStore(epoch=epoch, digest=digest, part=number, last=last, jobs=jobs, config=config)

    def _pieces(self) -> Iterator[tuple[str, str]]:
        """Yield names and contents of files, that of ``config.data`` in pieces."""
        yield "serial", f"{self.state.last_job}\n"
        yield "version", jobfiles.VERSION.decode()
        for one in sorted(self.state.jobs.values(), key=lambda job: job.id):
            yield f"job-{one.id}", jobfiles.encode(one).decode()
        for one in self.archived.newest(ARCHIVED):
            # What a master of the past left here may be of a history that does not count.
            if one.id <= self.state.last_job and str(one.id) not in self.state.jobs:
                name = f"archive/{one.id // jobfiles.ARCHIVE_SIZE}/job-{one.id}"
                yield name, jobfiles.encode(one).decode()
        for start in range(0, len(self.config), PART):
            yield _CONFIG, self.config[start : start + PART]
