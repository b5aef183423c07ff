"""Default segment ranges: each start of the master copies the ranges of its ``segments.ini`` into the state.

``daemons.master`` calls ``refresh`` after the master is confirmed and before it accepts jobs. Sections and options are
those of ``ml2_conf.ini``, so that such a file can be used unchanged; other options are ignored:

    [ml2]
    tenant_network_types = vlan,vxlan
    [ml2_type_vlan]
    network_vlan_ranges = physnet1:100:199,physnet2
    [ml2_type_vxlan]
    vni_ranges = 1000:1999

``[ml2_type_geneve]`` also has ``vni_ranges``, ``[ml2_type_gre]`` has ``tunnel_id_ranges``. A physical network without
bounds is known, but has no ids to allocate.

Invariant: the ``default`` ranges in the state are those of the last readable file. A range that is still in the file
keeps its UUID; networks keep their ids, whatever happens to ranges.
"""

import configparser
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import segments
from gantry.model import network
from gantry.operations import base, draws
from gantry.runtime import interface, paths
from gantry.state import snapshot, transaction

log = logging.getLogger(__name__)

Extent = tuple[str, str, int, int]
"""Network type, physical network, minimum, maximum: the identity of a range across changes of the file."""

_WITHOUT_SEGMENT = ("local", "flat")
"""Network types of ``ml2_conf.ini`` that have no segments."""

_TUNNELS = {"vxlan": "vni_ranges", "gre": "tunnel_id_ranges", "geneve": "vni_ranges"}
_NUMBER = re.compile(r"\s*[0-9]{1,10}\s*")


@dataclass(frozen=True)
class Configured:
    """The content of a file, in its order."""

    types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    ranges: dict[Extent, None] = field(default_factory=dict)


def parse(text: str) -> Configured:
    """Parse a file; raises InvalidError with the option and its problem."""
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise errors.InvalidError(" ".join(str(error).split())) from None
    types = [kind for kind in _words(parser, "ml2", "tenant_network_types") if kind not in _WITHOUT_SEGMENT]
    if unknown := [kind for kind in types if kind not in segments.LIMITS]:
        raise _fault("ml2", "tenant_network_types", f"{unknown[0]} is not a network type with segments")
    vlans = [word.split(":") for word in _words(parser, "ml2_type_vlan", "network_vlan_ranges")]
    extents = [*_bounds(vlans, "vlan", "network_vlan_ranges")]
    for kind, option in _TUNNELS.items():
        words = [["", *word.split(":")] for word in _words(parser, f"ml2_type_{kind}", option)]
        extents += _bounds(words, kind, option)
    physical_networks = dict.fromkeys(parts[0].strip() for parts in vlans)
    return Configured(tuple(dict.fromkeys(types)), tuple(physical_networks), dict.fromkeys(extents))


def _words(parser: configparser.RawConfigParser, section: str, option: str) -> Iterator[str]:
    text = parser.get(section, option, fallback="")
    return filter(None, (word.strip() for word in text.replace("\n", ",").split(",")))


def _bounds(words: Iterable[list[str]], kind: str, option: str) -> Iterator[Extent]:
    """Yield the extents of ``[physical network, minimum, maximum]``; skip physical networks without VLAN bounds."""
    for parts in words:
        if kind == "vlan" and len(parts) == 1:
            continue
        if len(parts) != 3 or not all(map(_NUMBER.fullmatch, parts[1:])):
            form = "PHYSICAL-NETWORK:FIRST:LAST" if kind == "vlan" else "FIRST:LAST"
            raise _fault(f"ml2_type_{kind}", option, f"'{':'.join(filter(None, parts))}' is not of the form {form}")
        name, low, high = parts[0].strip(), int(parts[1]), int(parts[2])
        try:
            segments.check_scope(kind, name)
            run = segments.checked_run(kind, low, maximum=high)
        except errors.InvalidError as error:
            raise _fault(f"ml2_type_{kind}", option, str(error)) from None
        yield kind, name, run.first, run.last


def _fault(section: str, option: str, problem: str) -> errors.InvalidError:
    return errors.InvalidError(f"[{section}] {option}: {problem}")


def changes(state: snapshot.Snapshot, configured: Configured, *, inputs: draws.Inputs) -> list[snapshot.Change]:
    """Return the changes that make the default ranges of a state those of a file; may be empty."""
    known = {_extent(default): default for default in state.segmentranges.values() if default.default}
    deletes = [
        snapshot.Delete("segmentranges", default.uuid)
        for extent, default in known.items()
        if extent not in configured.ranges
    ]
    puts = [snapshot.Put(_default(extent, inputs)) for extent in configured.ranges if extent not in known]
    owner = state.the_cluster
    if (owner.tenant_network_types, owner.physical_networks) != (configured.types, configured.physical_networks):
        owner = base.changed(
            owner, inputs.now, tenant_network_types=configured.types, physical_networks=configured.physical_networks
        )
        return [*deletes, *puts, snapshot.Put(owner)]
    return [*deletes, *puts]


def _extent(segment_range: network.SegmentRange) -> Extent:
    return (
        segment_range.network_type,
        segment_range.physical_network,
        segment_range.minimum,
        segment_range.maximum,
    )


def _default(extent: Extent, inputs: draws.Inputs) -> network.SegmentRange:
    kind, physical, minimum, maximum = extent
    return network.SegmentRange(
        uuid=inputs.uuid(),
        name="",
        ctime=inputs.now,
        mtime=inputs.now,
        network_type=kind,
        physical_network=physical,
        minimum=minimum,
        maximum=maximum,
        default=True,
    )


async def refresh(runtime: interface.Runtime, folders: paths.Paths, store: transaction.Store) -> None:
    """Copy the file's ranges into the state; without a valid file, the default ranges stay unchanged."""
    path = folders.segments
    try:
        configured = parse(runtime.disk.read(path).decode())
    except FileNotFoundError:
        if any(segment_range.default for segment_range in store.snapshot.segmentranges.values()):
            log.warning("%s does not exist on this node: the default segment ranges stay unchanged", path)
        return
    except (OSError, UnicodeDecodeError, errors.InvalidError) as error:
        log.error("cannot read %s, so the default segment ranges stay unchanged: %s", path, error)
        return
    random = runtime.random
    inputs = draws.Inputs(now=runtime.clock.now(), uuid=random.uuid, below=random.below)
    new_changes = changes(store.snapshot, configured, inputs=inputs)
    if new_changes:
        await store.commit(new_changes, transaction.Cause(reason=f"default segment ranges of {path}"))
        log.info("default segment ranges of %s: %d changes", path, len(new_changes))
