"""Default segment ranges: what the master's ``segments.ini`` says becomes part of the state, at each start.

``daemons.master`` calls ``refresh`` once it is confirmed and before it takes jobs. Sections and options are those of
``ml2_conf.ini``, so that such a file can be put here as it is; what it says besides is left alone:

    [ml2]
    tenant_network_types = vlan,vxlan
    [ml2_type_vlan]
    network_vlan_ranges = physnet1:100:199,physnet2
    [ml2_type_vxlan]
    vni_ranges = 1000:1999

``[ml2_type_geneve]`` has ``vni_ranges`` too, ``[ml2_type_gre]`` has ``tunnel_id_ranges``. A physical network without
bounds is known, and has no ids that are given out.

Invariant: the ranges in the state that are ``default`` are those of the last file that could be read. A range that
is in it again keeps its UUID; networks keep their ids, whatever becomes of ranges.
"""

import configparser
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import segments
from gantry.model import network
from gantry.operations import base
from gantry.runtime import interface, paths
from gantry.state import snapshot, transaction

log = logging.getLogger(__name__)

Extent = tuple[str, str, int, int]
"""Network type, physical network, minimum, maximum: what makes a range the same as before."""

_WITHOUT_SEGMENT = ("local", "flat")
"""Network types of that file that have no segments."""

_TUNNELS = {"vxlan": "vni_ranges", "gre": "tunnel_id_ranges", "geneve": "vni_ranges"}
_NUMBER = re.compile(r"\s*[0-9]{1,10}\s*")


@dataclass(frozen=True)
class Configured:
    """What a file says, in its order."""

    types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    ranges: dict[Extent, None] = field(default_factory=dict)


def parse(text: str) -> Configured:
    """Read a file; InvalidError that names the option and what is wrong with it."""
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise errors.InvalidError(" ".join(str(error).split())) from None
    types = [one for one in _words(parser, "ml2", "tenant_network_types") if one not in _WITHOUT_SEGMENT]
    if unknown := [one for one in types if one not in segments.LIMITS]:
        raise _fault("ml2", "tenant_network_types", f"{unknown[0]} is no network type with segments")
    vlans = [word.split(":") for word in _words(parser, "ml2_type_vlan", "network_vlan_ranges")]
    found = [*_bounds(vlans, "vlan", "network_vlan_ranges")]
    for kind, option in _TUNNELS.items():
        words = [["", *word.split(":")] for word in _words(parser, f"ml2_type_{kind}", option)]
        found += _bounds(words, kind, option)
    named = dict.fromkeys(parts[0].strip() for parts in vlans)
    return Configured(tuple(dict.fromkeys(types)), tuple(named), dict.fromkeys(found))


def _words(parser: configparser.RawConfigParser, section: str, option: str) -> Iterator[str]:
    text = parser.get(section, option, fallback="")
    return filter(None, (word.strip() for word in text.replace("\n", ",").split(",")))


def _bounds(words: Iterable[list[str]], kind: str, option: str) -> Iterator[Extent]:
    """Yield the extents of ``[physical network, minimum, maximum]``; of VLANs a bare physical network is none."""
    for parts in words:
        if kind == "vlan" and len(parts) == 1:
            continue
        if len(parts) != 3 or not all(map(_NUMBER.fullmatch, parts[1:])):
            form = "PHYSICAL-NETWORK:FIRST:LAST" if kind == "vlan" else "FIRST:LAST"
            raise _fault(f"ml2_type_{kind}", option, f"'{':'.join(filter(None, parts))}' is not written {form}")
        name, low, high = parts[0].strip(), int(parts[1]), int(parts[2])
        try:
            segments.check_scope(kind, name)
            run = segments.checked_run(kind, low, maximum=high)
        except errors.InvalidError as error:
            raise _fault(f"ml2_type_{kind}", option, str(error)) from None
        yield kind, name, run.first, run.last


def _fault(section: str, option: str, what: str) -> errors.InvalidError:
    return errors.InvalidError(f"[{section}] {option}: {what}")


def changes(state: snapshot.Snapshot, wanted: Configured, *, inputs: base.Inputs) -> list[snapshot.Change]:
    """Return what makes the default ranges of a state those of a file; nothing if they are that already."""
    known = {_extent(one): one for one in state.segmentranges.values() if one.default}
    gone = [snapshot.Delete("segmentranges", one.uuid) for extent, one in known.items() if extent not in wanted.ranges]
    new = [snapshot.Put(_default(extent, inputs)) for extent in wanted.ranges if extent not in known]
    owner = state.the_cluster
    if (owner.tenant_network_types, owner.physical_networks) != (wanted.types, wanted.physical_networks):
        owner = base.changed(
            owner, inputs.now, tenant_network_types=wanted.types, physical_networks=wanted.physical_networks
        )
        return [*gone, *new, snapshot.Put(owner)]
    return [*gone, *new]


def _extent(one: network.SegmentRange) -> Extent:
    return one.network_type, one.physical_network, one.minimum, one.maximum


def _default(extent: Extent, inputs: base.Inputs) -> network.SegmentRange:
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
    """Bring the file's ranges into the state; with a damaged file, or none, those of the last one stay."""
    path = folders.segments
    try:
        wanted = parse(runtime.disk.read(path).decode())
    except FileNotFoundError:
        if any(one.default for one in store.snapshot.segmentranges.values()):
            log.warning("there is no %s here: the default segment ranges stay as they are", path)
        return
    except (OSError, UnicodeDecodeError, errors.InvalidError) as error:
        log.error("%s is not read, the default segment ranges stay as they are: %s", path, error)
        return
    random = runtime.random
    inputs = base.Inputs(now=runtime.clock.now(), uuid=random.uuid, below=random.below)
    found = changes(store.snapshot, wanted, inputs=inputs)
    if found:
        await store.commit(found, transaction.Cause(reason=f"default segment ranges of {path}"))
        log.info("default segment ranges of %s: %d changes", path, len(found))
