"""The whole state in the form in which a master candidate receives it: in parts, so that each message is bounded.

``store.checkpointer`` makes a copy, ``candidate`` sends its parts in order (call CheckpointStore). A job's file is
encoded when its part is generated. If the candidate's copy is replaced, the newest archived jobs are sent too, though
the state does not contain them: a candidate that was away while they ended and were archived has no record of them.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from gantry.lib_files import queue as queue_file
from gantry.rpc import calls
from gantry.state.files import archive, jobfiles
from gantry.state.journal import journal
from gantry.state.objects import snapshot

PART = 1 << 20
"""Characters of files in one part, so that it does not delay the frames that the candidate receives meanwhile.

A job's file that is longer is a part of its own. A node accepts 64 MiB.
"""

ARCHIVED = 1000
"""The maximum number of archived jobs that are sent, so that the cost does not grow with the age of the cluster."""

_CONFIG = "config.data"


@dataclass(frozen=True)
class Copy:
    """The state at ``position``; ``config`` is the ``config.data`` of that moment, ``archived`` the archive."""

    state: snapshot.Snapshot
    position: journal.Position
    config: str
    archived: archive.Archive

    def parts(self, *, replace: bool) -> Iterator[calls.CheckpointStore]:
        """Yield what to send, in order: the queue's files, then ``config.data``; a small state is one part.

        ``replace`` is for a candidate that lacks frames up to here: it gets archived jobs too.
        """
        for part in self._parts(archived=ARCHIVED if replace else 0):
            yield msgspec.structs.replace(part, replace=replace)

    def _parts(self, *, archived: int) -> Iterator[calls.CheckpointStore]:
        digest = hashlib.sha256(self.config.encode()).hexdigest()
        number, size, jobs, config = 0, 0, dict[str, str](), ""
        for name, content in self._pieces(archived):
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

    def _pieces(self, archived: int) -> Iterator[tuple[str, str]]:
        """Yield names and contents of files, that of ``config.data`` in pieces."""
        yield "serial", f"{self.state.last_job}\n"
        yield "version", jobfiles.VERSION.decode()
        for job in sorted(self.state.jobs.values(), key=lambda job: job.id):
            yield f"job-{job.id}", jobfiles.encode(job).decode()
        for job in self.archived.newest(archived) if archived else ():
            # Files that a former master left here may belong to a history that was discarded.
            if job.id <= self.state.last_job and str(job.id) not in self.state.jobs:
                name = queue_file.archived_path("archive", job.id)
                yield name, jobfiles.encode(job).decode()
        for start in range(0, len(self.config), PART):
            yield _CONFIG, self.config[start : start + PART]
