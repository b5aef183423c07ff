"""``gantry segment show``, ``set`` and ``reload``: the default segment ranges, and which network types come first."""

from gantry.cli import errors, machine
from gantry.cli.framework import command, submit
from gantry.cli.output import documents

SET = "OP_SEGMENT_DEFAULTS_SET"
FILE = "segments.ini"
NONE = "none"
SOURCES = {"": "nothing yet", "file": f"{FILE} of the master", "command": "gantry segment set"}
TEXT = """
    What no option names stays unchanged; an empty text removes it. Each option has the form of the same option in
    segments.ini and takes effect at once. Networks keep their ids.
      gantry segment set --tenant-network-types vlan,vxlan --vlan-ranges physnet1:100:199 --vxlan-ranges 1000:1999
      gantry segment set --bridge-mappings physnet1:br0 --tunnel-link eth1
    While segments.ini of the master sets the segments, this command is refused unless --force is added: from then on
    the file is ignored, until gantry segment apply applies it again.
"""


def show(call: command.Call) -> int:
    """Show the settings of segments."""
    info = call.client.cluster_info()
    fields = ["network_type", "physical_network", "minimum", "maximum"]
    ranges = call.client.records("segmentrange", fields, where=["?", "default"])
    document = {
        "Set by": SOURCES.get(str(info["segment_source"]), info["segment_source"]),
        "Network types in order": info["tenant_network_types"] or "all",
        "Physical networks": info["physical_networks"] or NONE,
        "Default ranges": [
            f"{each['network_type']} {physical_network(each)}{each['minimum']}:{each['maximum']}" for each in ranges
        ]
        or NONE,
        "Bridge mappings": info["bridge_mappings"] or NONE,
        "Tunnel link": info["tunnel_link"] or NONE,
    }
    print(documents.document(document))
    return 0


def physical_network(segment_range: dict[str, object]) -> str:
    """Return the physical network of a range as segments.ini has it, with a colon; empty if there is none."""
    name = segment_range.get("physical_network")
    return f"{name}:" if name else ""


def change(call: command.Call) -> int:
    """Set default ranges and the order of network types."""
    op = call.opcode(SET)
    if not op.keys() - {"OP_ID", "force"}:
        raise errors.InvalidError("nothing to change", hint="give at least one option")
    return submit.carry_out(call, op)


def apply(call: command.Call) -> int:
    """Apply segments.ini of this machine, which is the master."""
    return submit.carry_out(call, {"OP_ID": SET, "file": machine.read_file(f"{machine.folder('etc')}/{FILE}")})


COMMANDS = (
    command.Command("segment show", show, "Show the default segment ranges and what sets them"),
    command.Command(
        "segment set",
        change,
        "Set the default segment ranges and the order of network types",
        options=(
            command.field_option(SET, "tenant_network_types", "--tenant-network-types", metavar="TYPES"),
            command.field_option(SET, "vlan_ranges", "--vlan-ranges", metavar="RANGES"),
            command.field_option(SET, "vxlan_ranges", "--vxlan-ranges", metavar="RANGES"),
            command.field_option(SET, "gre_ranges", "--gre-ranges", metavar="RANGES"),
            command.field_option(SET, "geneve_ranges", "--geneve-ranges", metavar="RANGES"),
            command.field_option(SET, "bridge_mappings", "--bridge-mappings", metavar="MAPPINGS"),
            command.field_option(SET, "tunnel_link", "--tunnel-link", metavar="DEVICE"),
            command.field_option(SET, "force", "--force"),
            *command.JOB,
        ),
        text=TEXT,
    ),
    command.Command(
        "segment apply",
        apply,
        "Apply segments.ini of this machine without a restart",
        options=command.JOB,
    ),
)
