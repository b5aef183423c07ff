"""``gnt-network``: networks with their subnets and pools, and their connections to node groups."""

from gantry.cli import errors
from gantry.cli.commands import address, address_records, segment_ranges, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import subnets, syntax
from gantry.cli.output import documents, network_info

ABOUT = "Creates and changes networks with their subnets and pools, and connects them to node groups."


def _connections(value: object) -> str:
    """Format ``[group, mode, link, vlan]`` rows as ``group (mode, link, vlan)``."""
    rows = [[str(part) for part in row if part] for row in value] if isinstance(value, list) else []
    return ", ".join(f"{row[0]} ({', '.join(row[1:])})" for row in rows if row) or "-"


def _subnets(value: object) -> str:
    return _cidrs([subnet.get("cidr") for subnet in value] if isinstance(value, list) else [])


def _cidrs(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) and value else "-"


def _quarantine(value: object) -> str:
    """Format ``[address, kind, name, end]`` rows as ``address (kind name)``."""
    return ", ".join(f"{row[0]} ({row[1]} {row[2]})" for row in value) if isinstance(value, list) and value else "-"


LISTING = query.Listing(
    "network",
    # The columns of Ganeti, then all subnets: a script that counts columns from the left is not affected.
    ("name", "network", "gateway", "mac_prefix", "group_list", "tags", "cidrs"),
    formatters={
        "group_list": _connections,
        "subnets": _subnets,
        "cidrs": _cidrs,
        "pools": _cidrs,
        "quarantine": _quarantine,
    },
)
MODES = ("bridged", "routed", "openvswitch")
ADD = "OP_NETWORK_ADD"
MODIFY = "OP_NETWORK_SET_PARAMS"
NETWORK = (command.Argument("NETWORK", completes="network", field="network_name"),)
NETWORKS = (command.Argument("NETWORK", minimum=0, maximum=None, completes="network"),)
WITH_GROUPS = (*NETWORK, command.Argument("GROUP", minimum=0, maximum=None, completes="group"))


def add(call: command.Call) -> int:
    """Create a network."""
    op = call.opcode(ADD, **segment_ranges.opcode_fields(call))
    return submit.carry_out(call, op, report=lambda result: _report(f"Created network {call.arguments[0]}", result))


def modify(call: command.Call) -> int:
    """Change a network."""
    op = call.opcode(MODIFY, **segment_ranges.opcode_fields(call))
    return submit.carry_out(call, op, report=lambda result: _report(f"Modified network {call.arguments[0]}", result))


def _report(title: str, result: object) -> None:
    """Print what a job changed, as ``gnt-instance modify`` does; the first line of the plan names the network."""
    lines = result.get("lines") if isinstance(result, dict) else None
    first, *changes = map(str, lines) if isinstance(lines, list) and lines else [""]
    print(first if first.startswith("nothing changes") else title)
    for line in changes:
        print(f" - {line}")


def rename(call: command.Call) -> int:
    """Rename a network."""
    old, new = call.arguments
    done = f"Renamed network {old} to {new}"
    return submit.carry_out(call, call.opcode("OP_NETWORK_RENAME"), report=lambda _: print(done))


def connect(call: command.Call) -> int:
    """Connect a network to node groups."""
    parameters = call.options.nic_parameters or {}
    unknown = sorted(parameters.keys() - {"mode", "link", "vlan"})
    if unknown:
        keys = "key" if len(unknown) == 1 else "keys"
        raise errors.InvalidError(f"-N: unknown {keys} {', '.join(unknown)}", hint="valid keys: mode, link, vlan")
    nic = {**_nic_defaults(call), **parameters}
    connection = {f"network_{key}": nic[key] for key in ("mode", "link", "vlan") if nic.get(key)}
    op = call.opcode("OP_NETWORK_CONNECT", **connection)
    groups = _groups(call)
    how = ", ".join(f"{key.removeprefix('network_')} {value}" for key, value in connection.items())
    return submit.carry_out_many(
        call,
        [(group, op | {"group_name": group}) for group in groups],
        report=lambda group: print(f"Connected network {call.arguments[0]} to node group {group}: {how}"),
    )


def _groups(call: command.Call) -> list[str]:
    """Return the requested node groups, all without arguments; InvalidError before any is connected if one is missing.

    Older releases of Ganeti take mode and link as arguments after a single group.
    """
    name, *groups = call.arguments
    records = call.client.records("group", ["name", "uuid"])
    known = {record.get(field) for record in records for field in ("name", "uuid")}
    missing = [group for group in groups if group not in known]
    if missing:
        hint = f"the node groups are: {', '.join(str(record['name']) for record in records)}"
        if len(groups) == 3 and groups[1] in MODES:
            mode, link = groups[1:]
            hint = f"mode and link are an option: gnt-network connect -N mode={mode},link={link} {name} {groups[0]}"
        raise errors.InvalidError(f"no such node group: {', '.join(missing)}; nothing was connected", hint=hint)
    return groups or [str(record["name"]) for record in records]


def _nic_defaults(call: command.Call) -> dict[str, object]:
    nicparams = call.client.cluster_info().get("nicparams")
    default = nicparams.get("default") if isinstance(nicparams, dict) else None
    return default if isinstance(default, dict) else {}


def disconnect(call: command.Call) -> int:
    """Disconnect a network from node groups."""
    name = call.arguments[0]
    op = call.opcode("OP_NETWORK_DISCONNECT")
    groups = call.arguments[1:] or _connected(call, name)
    if not groups:
        raise errors.InvalidError(f"the network {name} is not connected to any node group")
    return submit.carry_out_many(
        call,
        [(group, op | {"group_name": group}) for group in groups],
        report=lambda group: print(f"Disconnected network {name} from node group {group}"),
    )


def _connected(call: command.Call, name: str) -> list[str]:
    (record,) = call.client.records("network", ["group_list"], where=query.names_filter([name], LISTING))
    rows = record.get("group_list")
    return [str(row[0]) for row in rows] if isinstance(rows, list) else []


def info(call: command.Call) -> int:
    """Show networks in full."""
    if call.option("at") is not None:
        return address_records.info_at(call)
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("network", network_info.FIELDS, where=where)
    print(documents.document([network_info.network(record) for record in records]))
    return 0


def remove(call: command.Call) -> int:
    """Remove a network."""
    done = f"Removed network {call.arguments[0]}"
    return submit.carry_out(call, call.opcode("OP_NETWORK_REMOVE"), report=lambda _: print(done))


NO_CONFLICTS_CHECK = command.field_option(
    ADD,
    "conflicts_check",
    "--no-conflicts-check",
    help="Do not check whether instances have addresses of the network, and do not reserve addresses of nodes",
    negated=True,
)
MAC_PREFIX = command.field_option(
    ADD,
    "mac_prefix",
    "-m",
    "--mac-prefix",
    help="Set a MAC prefix instead of the cluster's, as in aa:00:01",
    metavar="PREFIX",
)
LARGE = command.field_option(ADD, "force", "-f", "--force")
RESERVE = command.field_option(
    ADD,
    "add_reserved_ips",
    "--add-reserved-ips",
    help="Reserve addresses and ranges externally, as in 10.0.0.2,10.0.0.5-10.0.0.9: pools never allocate them",
    metavar="RANGES",
    parse=subnets.ranges,
)
ADD_OPTIONS = (
    command.field_option(
        ADD,
        "subnets",
        "--subnet",
        help="Add a subnet, as in cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan; the word pool makes a pool of "
        "the whole subnet",
        metavar="cidr=CIDR,...",
        repeatable=True,
        parse=subnets.subnet,
    ),
    command.field_option(
        ADD,
        "pools",
        "--pool",
        help="Add a pool, as in 10.0.0.10-10.0.0.99,name=web; also a single address, a CIDR, or subnet=IDENT",
        metavar="RANGE[,name=NAME]",
        repeatable=True,
        parse=subnets.pool,
    ),
    command.field_option(ADD, "network", "--network", metavar="CIDR"),
    command.field_option(ADD, "gateway", "--gateway", help="Set the gateway of --network", metavar="ADDRESS"),
    command.field_option(ADD, "network6", "--network6", metavar="CIDR"),
    command.field_option(ADD, "gateway6", "--gateway6", help="Set the gateway of --network6", metavar="ADDRESS"),
    *segment_ranges.options("Set the segmentation id; next, or a network type alone, allocates the next free id"),
    command.field_option(
        ADD,
        "project",
        "--project",
        help="Set the project of the network; its segment ranges provide the segmentation id",
        metavar="PROJECT",
    ),
    MAC_PREFIX,
    RESERVE,
    NO_CONFLICTS_CHECK,
    LARGE,
    command.TAGS,
    *command.JOB,
)
ADD_TEXT = """
    Without a subnet, the network is layer 2 only. --network and --network6 are the older form; each
    adds a subnet with one pool of all its addresses.
      gnt-network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.99,name=web net1
      gnt-network add --subnet cidr=2001:db8::/64,pool net6
    A network with a segment has its own VLAN or tunnel. The segmentation id comes from the segment ranges.
      gnt-network add --type vlan --physical-network physnet1 --project P net7
"""
MODIFY_OPTIONS = (
    command.field_option(
        MODIFY,
        "subnets",
        "--subnet",
        help="Add, change or remove a subnet, as shown above",
        metavar="ACTION",
        repeatable=True,
        parse=subnets.subnet_change,
    ),
    command.field_option(
        MODIFY,
        "pools",
        "--pool",
        help="Add, rename or remove a pool, as shown above",
        metavar="ACTION",
        repeatable=True,
        parse=subnets.pool_change,
    ),
    RESERVE,
    command.field_option(
        MODIFY, "remove_reserved_ips", "--remove-reserved-ips", metavar="RANGES", parse=subnets.ranges
    ),
    command.field_option(
        MODIFY,
        "gateway",
        "--gateway",
        help="Set the gateway of the first IPv4 subnet; none removes it",
        metavar="ADDRESS",
    ),
    command.field_option(
        MODIFY, "network6", "--network6", help="Set the CIDR of the first IPv6 subnet; none removes it", metavar="CIDR"
    ),
    command.field_option(
        MODIFY,
        "gateway6",
        "--gateway6",
        help="Set the gateway of the first IPv6 subnet; none removes it",
        metavar="ADDRESS",
    ),
    *segment_ranges.options(
        "Set the segmentation id; next, or a network type alone, allocates the next free id; none removes it"
    ),
    MAC_PREFIX,
    NO_CONFLICTS_CHECK,
    LARGE,
    *command.JOB,
)
MODIFY_TEXT = "\n".join(
    (
        "The options of one command are applied together or not at all, subnets before pools.",
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
    command.Command(
        "add", add, "Create a network", (command.Argument("NETWORK", field="network_name"),), ADD_OPTIONS, text=ADD_TEXT
    ),
    command.Command("modify", modify, "Change a network", NETWORK, MODIFY_OPTIONS, text=MODIFY_TEXT),
    command.Command(
        "rename", rename, "Rename a network", (*NETWORK, command.Argument("NEW-NAME", field="new_name")), command.JOB
    ),
    command.Command(
        "connect",
        connect,
        "Connect a network to node groups; without GROUP, to all",
        WITH_GROUPS,
        (
            command.Option(
                ("-N", "--nic-parameters"),
                "Set how NICs are connected, as in mode=bridged,link=br0,vlan=5; without it, by the cluster's defaults",
                "PARAMS",
                parse=syntax.parameters,
                completes="nic-parameter",
            ),
            NO_CONFLICTS_CHECK,
            *command.DRY_RUN,
            *command.PRIORITY,
        ),
    ),
    command.Command(
        "disconnect",
        disconnect,
        "Disconnect a network from node groups; without GROUP, from all",
        WITH_GROUPS,
        (*command.DRY_RUN, *command.PRIORITY),
    ),
    *query.commands(LISTING, "networks", arguments=NETWORKS),
    command.Command("info", info, "Show networks in full", NETWORKS, (address_records.AT,), aliases=("show",)),
    address.COMMAND,
    *address_records.COMMANDS,
    command.Command(
        "remove",
        remove,
        "Remove a network",
        NETWORK,
        (command.field_option("OP_NETWORK_REMOVE", "force", "-f", "--force"), *command.JOB),
    ),
    *tags.commands("network", *NETWORK),
)
