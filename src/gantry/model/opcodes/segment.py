"""The opcodes of segment ranges, from which networks get their segmentation ids.

See contracts/segment-ranges.md#purpose.
"""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Opcode, Uuid

Text = Annotated[str, Meta(max_length=255)]
NetworkType = Annotated[str, Meta(max_length=16, description="vlan, vxlan, gre or geneve")]
WireType = Annotated[str, Meta(max_length=16, description="vlan, vxlan, gre, geneve, flat or local")]
PhysicalNetwork = Annotated[
    str, Meta(max_length=64, description="Physical network of VLANs or a flat network; empty for other network types")
]
SegmentationId = Annotated[int, Meta(ge=1, le=(1 << 32) - 1)]
RangeTags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=1024)]


class SegmentRangeSpec(base.Part, frozen=True):
    """A segment range to create, for every project if ``shared``, else for ``project``.

    A client may set ``uuid``, to find the range again if the answer is lost; by default it is generated.
    """

    network_type: NetworkType
    minimum: SegmentationId
    maximum: SegmentationId
    physical_network: PhysicalNetwork = ""
    name: Text = ""
    shared: bool = True
    project: Text = ""
    description: Text = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


Ranges = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=4096)]


class SegmentDefaultsSet(Opcode, frozen=True):
    """Set the default segment ranges and the order of network types, in the forms of segments.ini, without a restart.

    Settings that are None stay unchanged; ``file``, the content of a segments.ini, sets all of them. While they are
    from the file, other settings need ``force``; from then on the file is ignored until it is applied again.
    """

    tenant_network_types: Ranges | None = None
    vlan_ranges: Ranges | None = None
    vxlan_ranges: Ranges | None = None
    gre_ranges: Ranges | None = None
    geneve_ranges: Ranges | None = None
    bridge_mappings: Ranges | None = None
    tunnel_link: Annotated[str, Meta(max_length=64)] | None = None
    file: Annotated[str, Meta(max_length=1 << 18)] | None = None
    force: bool = False


class SegmentRangeAdd(Opcode, frozen=True):
    """Create segment ranges, all of them or none; the result is the list of the new ranges."""

    ranges: Annotated[tuple[SegmentRangeSpec, ...], Meta(min_length=1, max_length=256)]


class SegmentRangeSetParams(Opcode, frozen=True):
    """Change a segment range, by its UUID or unique name; the result is the changed range.

    It must keep the ids that networks have or that running jobs hold.
    """

    DESCRIBES = "range"

    range: Text
    name: Text | None = None
    minimum: SegmentationId | None = None
    maximum: SegmentationId | None = None
    description: Text | None = None
    tags: RangeTags | None = None


class SegmentRangeRemove(Opcode, frozen=True):
    """Remove a segment range without ids in use, by its UUID or unique name."""

    DESCRIBES = "range"

    range: Text
