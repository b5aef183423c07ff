"""The file of default segment ranges: each start of the master copies its ``segments.ini`` into the state.

``daemons.master`` calls ``refresh`` after the master is confirmed and before it accepts jobs. Without a valid file, and
after a command has set the ranges, they stay unchanged.
"""

import logging

from gantry import errors
from gantry.model import cluster
from gantry.operations import draws
from gantry.operations.segment import default_ranges
from gantry.runtime import interface, paths
from gantry.state.store import transaction

log = logging.getLogger(__name__)


async def refresh(runtime: interface.Runtime, folders: paths.Paths, store: transaction.Store) -> None:
    """Copy the file's ranges into the state, unless a command has set them."""
    path = folders.segments
    if store.snapshot.the_cluster.segment_source == cluster.SegmentSource.COMMAND:
        if runtime.disk.exists(path):
            log.warning("%s is ignored, as a command has set the segments: gantry segment apply applies it", path)
        return
    try:
        configured = default_ranges.parse(runtime.disk.read(path).decode())
    except FileNotFoundError:
        if any(segment_range.default for segment_range in store.snapshot.segmentranges.values()):
            log.warning("%s does not exist on this node: the default segment ranges stay unchanged", path)
        return
    except (OSError, UnicodeDecodeError, errors.InvalidError) as error:
        log.error("cannot read %s, so the default segment ranges stay unchanged: %s", path, error)
        return
    random = runtime.random
    inputs = draws.Inputs(now=runtime.clock.now(), uuid=random.uuid, below=random.below)
    new_changes = default_ranges.changes(store.snapshot, configured, source=cluster.SegmentSource.FILE, inputs=inputs)
    if new_changes:
        await store.commit(new_changes, transaction.Cause(reason=f"default segment ranges of {path}"))
        log.info("default segment ranges of %s: %d changes", path, len(new_changes))
