"""``gnt-network``: networks with their subnets and pools, and where they are plugged in."""

from gantry.cli import errors
from gantry.cli.commands import address_records, segment_ranges, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import subnets, syntax
from gantry.cli.output import documents, object_info

ABOUT = "Creates and changes networks with their subnets and pools, and connects them to node groups."


def _connections(value: object) -> str:
    """Show ``[group, mode, link, vlan]`` rows as ``group (mode, link, vlan)``."""
    rows = [[str(part) for part in row if part] for row in value] if isinstance(value, list) else []
    return ", ".join(f"{row[0]} ({', '.join(row[1:])})" for row in rows if row) or "-"


def _subnets(value: object) -> str:
    return ", ".join(str(one.get("cidr")) for one in value) if isinstance(value, list) and value else "-"


LISTING = query.Listing(
    "network",
    ("name", "network", "gateway", "mac_prefix", "group_list", "tags"),
    formatters={"group_list": _connections, "subnets": _subnets},
)
ONE = (command.Argument("NETWORK", completes="network"),)
SOME = (command.Argument("NETWORK", least=0, most=None, completes="network"),)
WITH_GROUPS = (*ONE, command.Argument("GROUP", least=0, most=None, completes="group"))


def add(call: command.Call) -> int:
    """Create a network."""
    options = call.options
    op: dict[str, object] = {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": call.arguments[0],
        "subnets": options.subnet,
        "pools": options.pool,
        "tags": options.tags,
        "project": options.project or "",
        **_edits(call),
    }
    return submit.carry_out(call, op)


def _edits(call: command.Call) -> dict[str, object]:
    """Return what creating and changing a network have in common."""
    names = ("network", "gateway", "network6", "gateway6", "mac_prefix", "add_reserved_ips", "remove_reserved_ips")
    given = {name: call.option(name) for name in names}
    checks = {"conflicts_check": not call.options.no_conflicts_check, "force": call.options.force}
    return checks | {name: value for name, value in given.items() if value} | segment_ranges.asked(call)


def modify(call: command.Call) -> int:
    """Change a network."""
    op: dict[str, object] = {
        "OP_ID": "OP_NETWORK_SET_PARAMS",
        "network_name": call.arguments[0],
        "subnets": call.options.subnet,
        "pools": call.options.pool,
        **_edits(call),
    }
    return submit.carry_out(call, op)


def rename(call: command.Call) -> int:
    """Give a network another name."""
    name, new_name = call.arguments
    return submit.carry_out(call, {"OP_ID": "OP_NETWORK_RENAME", "network_name": name, "new_name": new_name})


def connect(call: command.Call) -> int:
    """Plug a network in at node groups."""
    given = call.options.nic_parameters or {}
    unknown = sorted(given.keys() - {"mode", "link", "vlan"})
    if unknown:
        raise errors.InvalidError(f"-N: unknown {', '.join(unknown)}", hint="there are mode, link, vlan")
    plug = {**_nic_defaults(call), **given}
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": call.arguments[0],
        "conflicts_check": not call.options.no_conflicts_check,
        **{f"network_{key}": plug[key] for key in ("mode", "link", "vlan") if plug.get(key)},
    }
    groups = call.arguments[1:] or [str(record["name"]) for record in call.client.records("group", ["name"])]
    return submit.carry_out_many(call, [(group, op | {"group_name": group}) for group in groups])


def _nic_defaults(call: command.Call) -> dict[str, object]:
    found = call.client.cluster_info().get("nicparams")
    default = found.get("default") if isinstance(found, dict) else None
    return default if isinstance(default, dict) else {}


def disconnect(call: command.Call) -> int:
    """Unplug a network from node groups."""
    name = call.arguments[0]
    op: dict[str, object] = {"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": name}
    groups = call.arguments[1:] or _connected(call, name)
    if not groups:
        raise errors.InvalidError(f"the network {name} is not connected to any node group")
    return submit.carry_out_many(call, [(group, op | {"group_name": group}) for group in groups])


def _connected(call: command.Call, name: str) -> list[str]:
    (record,) = call.client.records("network", ["group_list"], where=query.names_filter([name], LISTING))
    rows = record.get("group_list")
    return [str(row[0]) for row in rows] if isinstance(rows, list) else []


def info(call: command.Call) -> int:
    """Show networks in full."""
    if call.option("at") is not None:
        return address_records.info_at(call)
    where = query.names_filter(call.arguments, LISTING)
    found = call.client.records("network", object_info.NETWORK_FIELDS, where=where)
    print(documents.document([object_info.network(record) for record in found]))
    return 0


def remove(call: command.Call) -> int:
    """Remove a network."""
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": call.arguments[0], "force": call.options.force}
    return submit.carry_out(call, op)


NO_CONFLICTS_CHECK = command.Option(
    ("--no-conflicts-check",), "Do not look for instances with such addresses, do not reserve those of nodes"
)
MAC_PREFIX = command.Option(("-m", "--mac-prefix"), "MAC prefix instead of the cluster's, as in aa:00:01", "PREFIX")
LARGE = command.Option(("-f", "--force"), "Take ranges of more than 65,536 addresses")
RESERVE = command.Option(
    ("--add-reserved-ips",),
    "Addresses and ranges that are never given out by themselves, as in 10.0.0.2,10.0.0.5-10.0.0.9",
    "RANGES",
    parse=syntax.words,
)
ADD_OPTIONS = (
    command.Option(
        ("--subnet",),
        "A subnet, as in cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan; the word pool makes a pool of all of it",
        "cidr=CIDR,...",
        many=True,
        parse=subnets.subnet,
    ),
    command.Option(
        ("--pool",),
        "A pool, as in 10.0.0.10-10.0.0.99,name=web; also one address, a CIDR, or subnet=IDENT",
        "RANGE[,name=NAME]",
        many=True,
        parse=subnets.pool,
    ),
    command.Option(("--network",), "IPv4 subnet with one pool over all of it", "CIDR"),
    command.Option(("--gateway",), "Gateway of --network", "ADDRESS"),
    command.Option(("--network6",), "IPv6 subnet with one pool over all of it", "CIDR"),
    command.Option(("--gateway6",), "Gateway of --network6", "ADDRESS"),
    *segment_ranges.options("Segmentation id; next, or a type alone, gives the next free one"),
    command.Option(("--project",), "Project that it belongs to, from whose segment ranges it gets its id", "PROJECT"),
    MAC_PREFIX,
    RESERVE,
    NO_CONFLICTS_CHECK,
    LARGE,
    command.TAGS,
    *command.JOB,
)
ADD_TEXT = """
    Without a subnet the network is layer 2 only. --network and --network6 are the older form:
    a subnet each, with one pool over all of it.
      gnt-network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.99,name=web net1
      gnt-network add --subnet cidr=2001:db8::/64,pool net6
    With a segment it is told apart on the wire: a VLAN, or a tunnel. The id comes from the segment ranges.
      gnt-network add --type vlan --physical-network physnet1 --project P net7
"""
MODIFY_OPTIONS = (
    command.Option(
        ("--subnet",),
        "Add, change or remove a subnet, as shown above",
        "ACTION",
        many=True,
        parse=subnets.subnet_change,
    ),
    command.Option(
        ("--pool",), "Add, rename or remove a pool, as shown above", "ACTION", many=True, parse=subnets.pool_change
    ),
    RESERVE,
    command.Option(
        ("--remove-reserved-ips",), "Addresses and ranges that are free again", "RANGES", parse=syntax.words
    ),
    command.Option(("--gateway",), "Gateway of the first IPv4 subnet; none takes it away", "ADDRESS"),
    command.Option(("--network6",), "CIDR of the first IPv6 subnet; none removes it", "CIDR"),
    command.Option(("--gateway6",), "Gateway of the first IPv6 subnet; none takes it away", "ADDRESS"),
    *segment_ranges.options("Segmentation id; next, or a type alone, gives the next free one; none takes it away"),
    MAC_PREFIX,
    NO_CONFLICTS_CHECK,
    LARGE,
    *command.JOB,
)
MODIFY_TEXT = "\n".join(
    (
        "All options of one command are one change: done as a whole or not at all, subnets before pools.",
        "",
        *(f"  --subnet {form}" for form in subnets.CHANGE_SUBNET),
        *(f"  --pool {form}" for form in subnets.CHANGE_POOL),
        "",
        "  gnt-network modify --subnet add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan net1",
        "  gnt-network modify --subnet lan:modify,cidr=10.0.0.0/23 --pool add:10.0.1.0-10.0.1.99,name=web net1",
        "  gnt-network modify --pool remove:10.0.1.20-10.0.1.29 --add-reserved-ips 10.0.1.20-10.0.1.29 net1",
    )
)

COMMANDS = (
    command.Command("add", add, "Create a network", (command.Argument("NETWORK"),), ADD_OPTIONS, text=ADD_TEXT),
    command.Command("modify", modify, "Change a network", ONE, MODIFY_OPTIONS, text=MODIFY_TEXT),
    command.Command("rename", rename, "Give a network another name", (*ONE, command.Argument("NEW-NAME")), command.JOB),
    command.Command(
        "connect",
        connect,
        "Plug a network in at node groups, at all without a GROUP",
        WITH_GROUPS,
        (
            command.Option(
                ("-N", "--nic-parameters"),
                "How NICs are plugged in there, as in mode=bridged,link=br0,vlan=5; without it the cluster's defaults",
                "PARAMS",
                parse=syntax.parameters,
            ),
            NO_CONFLICTS_CHECK,
            *command.DRY_RUN,
            *command.PRIORITY,
        ),
    ),
    command.Command(
        "disconnect",
        disconnect,
        "Unplug a network from node groups, from all without a GROUP",
        WITH_GROUPS,
        (*command.DRY_RUN, *command.PRIORITY),
    ),
    *query.commands(LISTING, "networks", arguments=SOME),
    command.Command("info", info, "Show networks in full", SOME, (address_records.AT,), aliases=("show",)),
    *address_records.COMMANDS,
    command.Command(
        "remove",
        remove,
        "Remove a network",
        ONE,
        (command.Option(("-f", "--force"), "Do not ask, go on"), *command.JOB),
    ),
    *tags.commands("network", *ONE),
)
