"""``gnt-network``: networks with their subnets and pools, and where they are plugged in."""

from gantry.cli import command, description, failures, filters, output, query, syntax, tables, waiting

ABOUT = "Creates networks with their subnets and pools, and connects them to node groups."


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
        "conflicts_check": not options.no_conflicts_check,
    }
    older = ("network", "gateway", "network6", "gateway6", "mac_prefix", "add_reserved_ips")
    given = {name: call.option(name) for name in older}
    return waiting.carry_out(call, op | {name: value for name, value in given.items() if value})


def connect(call: command.Call) -> int:
    """Plug a network in at node groups."""
    given = call.options.nic_parameters or {}
    unknown = sorted(given.keys() - {"mode", "link", "vlan"})
    if unknown:
        raise failures.InvalidError(f"-N: unknown {', '.join(unknown)}", hint="there are mode, link, vlan")
    plug = {**_nic_defaults(call), **given}
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": call.arguments[0],
        "conflicts_check": not call.options.no_conflicts_check,
        **{f"network_{key}": plug[key] for key in ("mode", "link", "vlan") if plug.get(key)},
    }
    groups = call.arguments[1:] or [str(record["name"]) for record in call.client.records("group", ["name"])]
    return waiting.carry_out_many(call, [(group, op | {"group_name": group}) for group in groups])


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
        raise failures.InvalidError(f"the network {name} is not connected to any node group")
    return waiting.carry_out_many(call, [(group, op | {"group_name": group}) for group in groups])


def _connected(call: command.Call, name: str) -> list[str]:
    (record,) = call.client.records("network", ["group_list"], where=query.names_filter([name], LISTING))
    rows = record.get("group_list")
    return [str(row[0]) for row in rows] if isinstance(rows, list) else []


def info(call: command.Call) -> int:
    """Show networks in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("network", description.NETWORK_FIELDS, where=where)
    print(output.document([description.network(record, _users(call, record)) for record in records]))
    return 0


def _users(call: command.Call, network: description.Record) -> dict[str, list[str]]:
    """Return the instances on a network, each with the addresses it has there as ``index of the NIC:address``."""
    names = network.get("inst_list")
    if not isinstance(names, list) or not names:
        return {}
    columns = ["name", "nic.networks", "nic.ips"]
    found = call.client.records("instance", columns, where=filters.any_of("name", names))
    return {str(one["name"]): _addresses(one, network.get("uuid")) for one in found}


def _addresses(instance: description.Record, network: object) -> list[str]:
    networks, addresses = instance.get("nic.networks"), instance.get("nic.ips")
    if not isinstance(networks, list) or not isinstance(addresses, list):
        return []
    return [
        f"{index}:{tables.text(address)}"
        for index, (uuid, address) in enumerate(zip(networks, addresses, strict=False))
        if uuid == network
    ]


def remove(call: command.Call) -> int:
    """Remove a network."""
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": call.arguments[0], "force": call.options.force}
    return waiting.carry_out(call, op)


NO_CONFLICTS_CHECK = command.Option(("--no-conflicts-check",), "Do not look for instances with such addresses")
ADD_TEXT = """
    Without a subnet the network is layer 2 only. --network and --network6 are the older form:
    a subnet each, with one pool over all of it.
      gnt-network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.99,name=web net1
      gnt-network add --subnet cidr=2001:db8::/64,pool net6
"""

COMMANDS = (
    command.Command(
        "add",
        add,
        "Create a network",
        (command.Argument("NETWORK"),),
        (
            command.Option(
                ("--subnet",),
                "A subnet, as in cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan; the word pool makes a pool of "
                "all of it",
                "cidr=CIDR,...",
                many=True,
                parse=syntax.subnet,
            ),
            command.Option(
                ("--pool",),
                "A pool, as in 10.0.0.10-10.0.0.99,name=web; also one address or a CIDR",
                "RANGE[,name=NAME]",
                many=True,
                parse=syntax.pool,
            ),
            command.Option(("--network",), "IPv4 subnet with one pool over all of it", "CIDR"),
            command.Option(("--gateway",), "Gateway of --network", "ADDRESS"),
            command.Option(("--network6",), "IPv6 subnet with one pool over all of it", "CIDR"),
            command.Option(("--gateway6",), "Gateway of --network6", "ADDRESS"),
            command.Option(("-m", "--mac-prefix"), "MAC prefix instead of the cluster's, as in aa:00:01", "PREFIX"),
            command.Option(
                ("--add-reserved-ips",),
                "Addresses and ranges that are never given out by themselves, as in 10.0.0.2,10.0.0.5-10.0.0.9",
                "RANGES",
                parse=syntax.words,
            ),
            NO_CONFLICTS_CHECK,
            command.TAGS,
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
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
    command.Command("info", info, "Show networks in full", SOME, aliases=("show",)),
    command.Command(
        "remove",
        remove,
        "Remove a network",
        ONE,
        (command.Option(("-f", "--force"), "Remove it while it is still connected"), *command.JOB),
    ),
)
