"""Default segment ranges: what ``segments.ini`` or a command says, and the changes of the state that it means; pure.

``ranges_file`` calls it with the file at each start of the master, ``defaults`` for the command. Sections and
options are those of ``ml2_conf.ini``, so that such a file can be used unchanged; other options are ignored:

    [ml2]
    tenant_network_types = vlan,vxlan
    [ml2_type_vlan]
    network_vlan_ranges = physnet1:100:199,physnet2
    [ml2_type_vxlan]
    vni_ranges = 1000:1999
    [ovs]
    bridge_mappings = physnet1:br0
    [gantry]
    tunnel_link = eth1

``[ml2_type_geneve]`` also has ``vni_ranges``, ``[ml2_type_gre]`` has ``tunnel_id_ranges``. A physical network without
bounds is known, but has no ids to allocate. ``tunnel_link`` is Gantry's own option.

Invariant: the ``default`` ranges in the state are those of the last readable file or of the last command
(``Cluster.segment_source``). A range that stays keeps its UUID; networks keep their ids, whatever happens to ranges.
"""

import configparser
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import segments
from gantry.model import cluster, network, opcodes
from gantry.operations import base, draws
from gantry.state.objects import snapshot

Extent = tuple[str, str, int, int]
"""Network type, physical network, minimum, maximum: the identity of a range across changes of the file."""

_WITHOUT_SEGMENT = ("local", "flat")
"""Network types of ``ml2_conf.ini`` that have no segments."""

_OPTIONS = {
    "vlan": "network_vlan_ranges",
    "vxlan": "vni_ranges",
    "gre": "tunnel_id_ranges",
    "geneve": "vni_ranges",
}
_LINK = re.compile(r"[^\s/:]{1,15}")
MAX_NAME = 64
"""The maximum length of the name of a physical network."""
_NUMBER = re.compile(r"\s*[0-9]{1,10}\s*")


@dataclass(frozen=True)
class Configured:
    """The settings of a file, in its order."""

    types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    ranges: dict[Extent, None] = field(default_factory=dict)
    bridges: dict[str, str] = field(default_factory=dict)
    tunnel_link: str = ""


def parse(text: str) -> Configured:
    """Parse a file; raises InvalidError with the option and its problem."""
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise errors.InvalidError(" ".join(str(error).split())) from None
    words = {kind: tuple(_words(parser, f"ml2_type_{kind}", option)) for kind, option in _OPTIONS.items()}
    links = tuple(_words(parser, "ovs", "bridge_mappings")), parser.get("gantry", "tunnel_link", fallback="")
    return _configured(Configured(), tuple(_words(parser, "ml2", "tenant_network_types")), words, links)


def requested(state: snapshot.Snapshot, op: opcodes.SegmentDefaultsSet) -> Configured:
    """Return the present settings with those of an opcode; raises InvalidError with the option and its problem."""
    current = Configured(
        state.the_cluster.tenant_network_types,
        state.the_cluster.physical_networks,
        {_extent(known): None for known in state.segmentranges.values() if known.default},
        state.the_cluster.bridge_mappings,
        state.the_cluster.tunnel_link,
    )
    fields = {"vlan": op.vlan_ranges, "vxlan": op.vxlan_ranges, "gre": op.gre_ranges, "geneve": op.geneve_ranges}
    words = {kind: value for kind, value in fields.items() if value is not None}
    return _configured(current, op.tenant_network_types, words, (op.bridge_mappings, op.tunnel_link))


def _configured(
    current: Configured,
    types: tuple[str, ...] | None,
    words: Mapping[str, tuple[str, ...]],
    links: tuple[tuple[str, ...] | None, str | None],
) -> Configured:
    """Return settings with other types and links, unless None, and other ranges of the network types in ``words``."""
    order, physical_networks = current.types, current.physical_networks
    if types is not None:
        order = tuple(dict.fromkeys(kind for kind in types if kind not in _WITHOUT_SEGMENT))
        if unknown := [kind for kind in order if kind not in segments.LIMITS]:
            raise _fault("ml2", "tenant_network_types", f"{unknown[0]} is not a network type with segments")
    extents = [extent for extent in current.ranges if extent[0] not in words]
    for kind, texts in words.items():
        prefix = [] if kind == "vlan" else [""]
        parts = [[*prefix, *word.split(":")] for word in texts]
        extents += _bounds(parts, kind, _OPTIONS[kind])
        if kind == "vlan":
            physical_networks = tuple(dict.fromkeys(part[0].strip() for part in parts))
    bridges = current.bridges if links[0] is None else _bridges(links[0])
    tunnel_link = current.tunnel_link if links[1] is None else links[1].strip()
    if tunnel_link and not _LINK.fullmatch(tunnel_link):
        raise _fault("gantry", "tunnel_link", f"{tunnel_link!r} is not a network device name")
    return Configured(order, physical_networks, dict.fromkeys(extents), bridges, tunnel_link)


def _bridges(words: Iterable[str]) -> dict[str, str]:
    """Return the link of each physical network; both must be unique, because the networks of a link are one wire."""
    bridges: dict[str, str] = {}
    for word in words:
        name, _, link = (part.strip() for part in word.partition(":"))
        if not name or len(name) > MAX_NAME or not _LINK.fullmatch(link):
            raise _fault("ovs", "bridge_mappings", f"{word!r} is not of the form PHYSICAL-NETWORK:LINK")
        if name in bridges or link in bridges.values():
            raise _fault("ovs", "bridge_mappings", f"{name if name in bridges else link} is there twice")
        bridges[name] = link
    return bridges


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


def changes(
    state: snapshot.Snapshot, configured: Configured, *, source: cluster.SegmentSource, inputs: draws.Inputs
) -> list[snapshot.Change]:
    """Return the changes that make the default ranges of a state those of a file or a command; may be empty.

    If nothing at all is configured, neither of them has set the segments.
    """
    known = {_extent(default): default for default in state.segmentranges.values() if default.default}
    deletes = [
        snapshot.Delete("segmentranges", default.uuid)
        for extent, default in known.items()
        if extent not in configured.ranges
    ]
    puts = [snapshot.Put(_default(extent, inputs)) for extent in configured.ranges if extent not in known]
    the_cluster = state.the_cluster
    settings = {
        "tenant_network_types": configured.types,
        "physical_networks": configured.physical_networks,
        "segment_source": source.value if configured != Configured() else "",
        "bridge_mappings": configured.bridges,
        "tunnel_link": configured.tunnel_link,
    }
    if any(getattr(the_cluster, name) != value for name, value in settings.items()):
        return [*deletes, *puts, snapshot.Put(base.changed(the_cluster, inputs.now, **settings))]
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
