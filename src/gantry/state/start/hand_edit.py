"""What happens to a ``config.data`` that was edited by hand: its objects become a record of the journal."""

import itertools
import logging
from collections.abc import Sequence

from msgspec import structs

from gantry.address import ranges
from gantry.lib_files import frame
from gantry.model import network
from gantry.state.files import checkpoint
from gantry.state.journal import journal, record
from gantry.state.objects import snapshot as states
from gantry.state.start import recovery

logger = logging.getLogger(__name__)


async def note(log: journal.Journal, recovered: recovery.Recovered, *, now: float) -> None:
    """Add a record with the objects of a ``config.data`` that was edited by hand to the journal.

    So history and events include the edit, and candidates, which cannot get it as a frame, receive the whole state.
    External reservations are put in order and apart, as all operations keep them: they are searched by bisection.
    """
    networks = [states.Put(_normalized(net)) for net in recovered.state.networks.values()]
    before, end = recovered.state.apply(networks, serial=recovered.state.serial), recovered.replay.end
    objects = [
        before.the_cluster,
        *(value for kind in checkpoint.COLLECTIONS for value in before.collection(kind).values()),
    ]
    changes = tuple(states.Put(value) for value in objects)
    cause = record.Cause(reason=record.HAND_EDIT)
    journal_record = record.Record(serial=before.serial + 1, time=now, epoch=end.epoch, cause=cause, changes=changes)
    line = frame.pack(end.digest, [record.encode(journal_record)])
    await log.append(line)
    logger.warning("%s; it is record %d of the journal", cause.reason, journal_record.serial)
    recovered.state = before.apply((), serial=journal_record.serial)
    recovered.replay.end = journal.Position(journal_record.serial, frame.digest(line), end.epoch)
    recovered.replayed += 1


def _normalized(net: network.Network) -> network.Network:
    return structs.replace(
        net, subnets=tuple(structs.replace(subnet, external=_apart(subnet.external)) for subnet in net.subnets)
    )


def _apart(texts: Sequence[str]) -> tuple[str, ...]:
    """Return external reservations in order; those of a subnet are joined if any two of them overlap."""
    in_order = sorted(texts, key=lambda text: ranges.parse_range(text)[1])
    runs = [ranges.parse_range(text) for text in in_order]
    if all(before.last < after.first for (_, before), (_, after) in itertools.pairwise(runs)):
        return tuple(in_order)
    return tuple(ranges.format_range(runs[0][0], run) for run in ranges.union(run for _, run in runs))
