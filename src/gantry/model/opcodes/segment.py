"""The opcodes of segment ranges, from which networks get their segmentation ids.

See contracts/segment-ranges.md#purpose.
"""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Description, DisplayName, Opcode, RangeTags, Text, Uuid

NetworkType = Annotated[str, Meta(max_length=16, description="vlan, vxlan, gre or geneve")]
WireType = Annotated[
    str, Meta(max_length=16, description="Set the network type: vlan, vxlan, gre, geneve, flat or local")
]
PhysicalNetwork = Annotated[
    str, Meta(max_length=64, description="Physical network of VLANs or a flat network; empty for other network types")
]
SegmentationId = Annotated[int, Meta(ge=1, le=(1 << 32) - 1)]
Minimum = Annotated[SegmentationId, Meta(description="Set the lowest segmentation id")]
Maximum = Annotated[SegmentationId, Meta(description="Set the highest segmentation id")]
RangeName = Annotated[Text, Meta(description="UUID of the segment range, or its name if the name is unique")]


class SegmentRangeSpec(base.Part, frozen=True):
    """A segment range to create, for every project if ``shared``, else for ``project``.

    A client may set ``uuid``, to find the range again if the answer is lost; by default it is generated.
    """

    network_type: NetworkType
    minimum: Minimum
    maximum: Maximum
    physical_network: PhysicalNetwork = ""
    name: DisplayName = ""
    shared: Annotated[bool, Meta(description="Share the range with every project that has no ranges of its own")] = True
    project: Annotated[Text, Meta(description="Project of a range that is not shared")] = ""
    description: Description = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


Ranges = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=4096)]


class SegmentDefaultsSet(Opcode, frozen=True):
    """Set the default segment ranges and the order of network types, in the forms of segments.ini, without a restart.

    Settings that are None stay unchanged; ``file``, the content of a segments.ini, sets all of them. While they are
    from the file, other settings need ``force``; from then on the file is ignored until it is applied again.
    """

    tenant_network_types: Annotated[
        Ranges | None, Meta(description="Set the network types of networks without a type, in the order of preference")
    ] = None
    vlan_ranges: Annotated[
        Ranges | None,
        Meta(description="Set the VLANs of physical networks: NAME:FIRST:LAST, or NAME to make one known"),
    ] = None
    vxlan_ranges: Annotated[Ranges | None, Meta(description="Set the VXLAN ids: FIRST:LAST")] = None
    gre_ranges: Annotated[Ranges | None, Meta(description="Set the GRE ids: FIRST:LAST")] = None
    geneve_ranges: Annotated[Ranges | None, Meta(description="Set the Geneve ids: FIRST:LAST")] = None
    bridge_mappings: Annotated[
        Ranges | None,
        Meta(
            description="Set the bridge or network card of physical networks, PHYSICAL-NETWORK:LINK, that connects new "
            "networks of the Neutron API in every node group"
        ),
    ] = None
    tunnel_link: (
        Annotated[
            str,
            Meta(
                max_length=64, description="Set the network device that connects new VXLAN networks of the Neutron API"
            ),
        ]
        | None
    ) = None
    file: (
        Annotated[str, Meta(max_length=1 << 18, description="Content of a segments.ini, which sets all of this")] | None
    ) = None
    force: Annotated[
        bool, Meta(description="Set the segments although they are from segments.ini, which is ignored from then on")
    ] = False


class SegmentRangeAdd(Opcode, frozen=True):
    """Create segment ranges, all of them or none; the result is the list of the new ranges."""

    ranges: Annotated[
        tuple[SegmentRangeSpec, ...], Meta(min_length=1, max_length=256, description="The segment ranges to create")
    ]


class SegmentRangeSetParams(Opcode, frozen=True):
    """Change a segment range, by its UUID or unique name; the result is the changed range.

    It must keep the ids that networks have or that running jobs hold.
    """

    DESCRIBES = "range"

    range: RangeName
    name: Annotated[Text | None, Meta(description="Set the name, which need not be unique")] = None
    minimum: Minimum | None = None
    maximum: Maximum | None = None
    description: Description | None = None
    tags: RangeTags | None = None


class SegmentRangeRemove(Opcode, frozen=True):
    """Remove a segment range without ids in use, by its UUID or unique name."""

    DESCRIBES = "range"

    range: RangeName
