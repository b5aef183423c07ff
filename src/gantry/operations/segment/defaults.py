"""OP_SEGMENT_DEFAULTS_SET: set the default segment ranges, by a command or from the file, while the master runs."""

from gantry import errors
from gantry.model import cluster, opcodes
from gantry.operations import base, config_part
from gantry.operations.segment import default_ranges
from gantry.state.objects import snapshot as states

_SETTINGS = (
    *("tenant_network_types", "vlan_ranges", "vxlan_ranges", "gre_ranges", "geneve_ranges"),
    *("bridge_mappings", "tunnel_link"),
)


class SegmentDefaultsSet(config_part.Change[opcodes.SegmentDefaultsSet]):
    """Sets default segment ranges; networks keep their ids, as with another file at a start."""

    OPCODE = opcodes.SegmentDefaultsSet
    PART = "cluster"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put what differs."""
        del facts
        inputs = self.environment.inputs
        configured, source = self._requested(snapshot)
        changes = default_ranges.changes(snapshot, configured, source=source, inputs=inputs)
        if not changes:
            return base.Plan(lines=["nothing changes: the segments already have these settings"])
        return base.Plan(lines=_lines(configured), changes=changes)

    def _requested(self, snapshot: states.Snapshot) -> tuple[default_ranges.Configured, cluster.SegmentSource]:
        """Return the new settings and what sets them; raises InvalidError, WrongStateError."""
        op = self.op
        has_settings = any(getattr(op, name) is not None for name in _SETTINGS)
        if op.file is not None:
            if has_settings:
                raise errors.InvalidError("a file has all settings of segments", hint="omit the other settings")
            return default_ranges.parse(op.file), cluster.SegmentSource.FILE
        if not has_settings:
            raise errors.InvalidError("no setting of segments was requested", hint="specify at least one")
        if snapshot.the_cluster.segment_source == cluster.SegmentSource.FILE and not op.force:
            raise errors.WrongStateError(
                "the segments are set by segments.ini, which the master reads at each start",
                hint="change that file and run gantry segment apply; or add --force, to ignore the file from now on",
            )
        return default_ranges.requested(snapshot, op), cluster.SegmentSource.COMMAND


def _lines(configured: default_ranges.Configured) -> list[str]:
    """Return the settings as text for a dry run."""
    extents = [
        f"default range of {kind}{f' of physical network {physical}' if physical else ''}: {first} to {last}"
        for kind, physical, first, last in configured.ranges
    ]
    return [
        f"network types in order: {', '.join(configured.types) or 'all'}",
        f"physical networks: {', '.join(configured.physical_networks) or 'none'}",
        *extents,
        *(f"networks of physical network {name} are connected by {link}" for name, link in configured.bridges.items()),
        *([f"VXLAN networks are connected by {configured.tunnel_link}"] if configured.tunnel_link else []),
    ]
