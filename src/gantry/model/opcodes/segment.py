"""The opcodes of segment ranges: which segmentation ids the networks of a project get.

See contracts/segment-ranges.md#purpose.
"""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Opcode, Uuid

Text = Annotated[str, Meta(max_length=255)]
NetworkType = Annotated[str, Meta(max_length=16, description="vlan, vxlan, gre or geneve")]
PhysicalNetwork = Annotated[
    str, Meta(max_length=64, description="Physical network of VLANs; empty for other network types")
]
SegmentationId = Annotated[int, Meta(ge=1, le=(1 << 32) - 1)]
RangeTags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=1024)]


class SegmentRangeSpec(base.Part, frozen=True):
    """A segment range to make: of everybody if ``shared``, else of the ``project``.

    The ``uuid`` is given by who wants to find it again though the answer is lost; without it, it is made up.
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


class SegmentRangeAdd(Opcode, frozen=True):
    """Make segment ranges, all of them or none; the result is a list of what was made."""

    ranges: Annotated[tuple[SegmentRangeSpec, ...], Meta(min_length=1, max_length=256)]


class SegmentRangeSetParams(Opcode, frozen=True):
    """Change a segment range, by its UUID or a name that no other has; the result is what it became.

    Ids that a network has, or a running job is about to give to one, have to stay in it.
    """

    DESCRIBES = "range"

    range: Text
    name: Text | None = None
    minimum: SegmentationId | None = None
    maximum: SegmentationId | None = None
    description: Text | None = None
    tags: RangeTags | None = None


class SegmentRangeRemove(Opcode, frozen=True):
    """Remove a segment range of which no id is in use, by its UUID or a name that no other has."""

    DESCRIBES = "range"

    range: Text
