"""The commands of ``gnt-network`` that report addresses: history, map, reservations as CSV, DHCP configuration.

``programs.network`` includes ``COMMANDS``. This module has the options, the queries and the file access; the formats
are in ``cli.output.pool_map``, ``cli.output.reservations`` and ``cli.output.dhcp``, which are pure. Each command
imports its format itself, because every ``gnt-network`` command imports this module.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantry.cli import client, errors, machine
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import moments, syntax
from gantry.cli.output import documents as output_documents
from gantry.cli.output import tables

if TYPE_CHECKING:
    from gantry.cli.output import network_view, pool_map

HISTORY = (
    client.Field("address", "Address", "text", "The address"),
    client.Field("instance", "Instance", "text", "Instance or port that has or had the address"),
    client.Field("kind", "Kind", "text", "instance or port"),
    client.Field("from", "From", "timestamp", "Time of the allocation; empty if before the records begin"),
    client.Field("to", "To", "timestamp", "Time of the release; empty while the address is allocated"),
    client.Field("job", "Job", "number", "Job that allocated the address"),
    client.Field("opcode", "OpCode", "text", "Opcode that allocated the address"),
    client.Field("user", "User", "text", "User who requested the allocation"),
    client.Field("reason", "Reason", "text", "Reason of the allocation"),
    client.Field("end_job", "EndJob", "number", "Job that released the address"),
    client.Field("end_opcode", "EndOpCode", "text", "Opcode that released the address"),
    client.Field("end_user", "EndUser", "text", "User who requested the release"),
    client.Field("end_reason", "EndReason", "text", "Reason of the release"),
    client.Field("instance_uuid", "InstanceUUID", "text", "UUID of the instance or port"),
    client.Field("network_uuid", "NetworkUUID", "text", "UUID of the network"),
)
DEFAULT_COLUMNS = ("address", "instance", "from", "to", "job", "reason")
SHORT_FORMATTERS = {"from": output_documents.minute, "to": output_documents.minute}
ROWS = 1000
"""Default number of rows of a history."""

ALL_ROWS = 1_000_000
"""Maximum number of rows for the owners of all addresses of a network at one time."""

RANGES = 4096
"""Maximum number of external reservations in one opcode."""


def history(call: command.Call) -> int:
    """Show who had which address of a network."""
    limit = call.option("limit")
    if limit < 1:
        raise errors.InvalidError("--limit must be at least 1")
    answer = _past(call, call.arguments[0], address=call.option("address"), limit=limit + 1)
    rows = client.expect(answer.get("rows"), list)
    last_rows = rows[-limit:]
    known = {field.name: field for field in HISTORY}
    columns = query.chosen_columns(call.option("output"), DEFAULT_COLUMNS)
    fields = [known.get(name) or client.Field(name, name, "unknown", "") for name in columns]
    table = client.Table(fields, [[_cell(row, field) for field in fields] for row in last_rows])
    has_own_format = call.option("output") or call.option("separator") or call.option("format") != "table"
    formatters = tables.NO_FORMATTERS if has_own_format else SHORT_FORMATTERS
    code = query.print_table(call, table, formatters=formatters)
    if len(rows) > len(last_rows):
        print(f"Only the last {len(last_rows)} rows are shown; --limit shows more", file=sys.stderr)
    moment = call.option("at")
    since = answer.get("since")
    if moment is not None and isinstance(since, int | float) and moment < since:
        print(f"There are no records of that time: they begin at {output_documents.clock(since)}", file=sys.stderr)
    return code


def _past(call: command.Call, name: str, *, address: str | None, limit: int) -> Mapping[str, object]:
    return client.expect(call.client.call("QueryNetworkHistory", name, address, call.option("at"), limit), dict)


def _cell(row: Mapping[str, object], field: client.Field) -> tuple[int, object]:
    if field.kind == "unknown":
        return 1, None
    value = row.get(field.name)
    return (3, None) if value is None or value == "" else (0, value)


def info_at(call: command.Call) -> int:
    """Show networks at a time in the past, with the addresses that instances and ports had."""
    documents = []
    for name in call.arguments:
        answer = _past(call, name, address=None, limit=ALL_ROWS)
        network = answer.get("network")
        if not isinstance(network, dict):
            raise errors.CommandError(_absence(name, call.option("at"), answer.get("since")))
        documents.append(_described(network, client.expect(answer.get("rows"), list), call.option("at")))
    if not documents:
        raise errors.InvalidError("--at needs the name of a network")
    print(output_documents.document(documents))
    return 0


def _absence(name: str, moment: float, since: object) -> str:
    """Return why a network is not shown: it did not exist at that time, or the journal does not have it."""
    time_text = output_documents.clock(moment)
    if not isinstance(since, int | float):
        return f"network {name} did not exist at {time_text}"
    begin = output_documents.clock(since)
    if moment < since:
        return f"network {name} at {time_text} is not known: the records begin at {begin}"
    return f"network {name} did not exist at {time_text}, or was as no record since {begin} shows it"


def _described(network: Mapping[str, object], rows: list[Mapping[str, object]], moment: float) -> dict[str, object]:
    users: dict[str, list[object]] = {}
    ports: dict[str, object] = {}
    for row in rows:
        if row.get("kind") == "port":
            ports[str(row["address"])] = row["instance"]
        else:
            users.setdefault(str(row["instance"]), []).append(row["address"])
    return {
        "Network name": network.get("name"),
        "At": output_documents.moment(moment),
        "UUID": network.get("uuid"),
        "Serial number": network.get("serial_no", 1),
        "Mac Prefix": network.get("mac_prefix"),
        **({"Segment": network["segment"]} if "segment" in network else {}),
        "Subnets": network.get("subnets", []),
        f"used by {len(users)} instances": users,
        **({"addresses of ports": ports} if ports else {}),
        "Tags": network.get("tags", []),
    }


def draw(call: command.Call) -> int:
    """Draw the pools of a network."""
    from gantry.cli.output import network_view, pool_map

    network = network_view.read(call.client, call.arguments[0])
    subnets = (
        [network_view.subnet_by_ident(network, call.option("subnet"))] if call.option("subnet") else network.subnets
    )
    ident = call.option("pool")
    pools = [
        (subnet, pool) for subnet in subnets for pool in subnet.pools if ident in (None, pool.name, str(pool.range))
    ]
    if not pools:
        missing = f"pool {ident}" if ident else "pool"
        within = f" in subnet {subnets[0].label}" if call.option("subnet") else ""
        hint = f"its pools: gnt-network info {network.name}"
        raise errors.InvalidError(f"network {network.name} has no {missing}{within}", hint=hint)
    canvas = _canvas()
    used = {version: [int(address) for address in network.used() if address.version == version] for version in (4, 6)}
    for subnet, pool in pools:
        for line in pool_map.draw(pool, subnet, used[pool.range.version], quarantine=network.quarantine, canvas=canvas):
            print(line)
        print()
    for line in pool_map.legend(canvas):
        print(line)
    return 0


def _canvas() -> pool_map.Canvas:
    """Return the width and colours of the terminal; any width and no colours if stdout is not a terminal."""
    from gantry.cli.output import pool_map

    if not sys.stdout.isatty():
        return pool_map.Canvas()
    return pool_map.Canvas(os.get_terminal_size(sys.stdout.fileno()).columns, colours="NO_COLOR" not in os.environ)


def export(call: command.Call) -> int:
    """Write the reservations of a network as CSV."""
    from gantry.cli.output import network_view, reservations

    network = network_view.read(call.client, call.arguments[0])
    machine.write_file(call.arguments[1] if len(call.arguments) > 1 else "-", reservations.export(network))
    return 0


def import_file(call: command.Call) -> int:
    """Reserve the addresses of a CSV file externally."""
    from gantry.cli.output import network_view, reservations

    name, path = call.arguments
    text = machine.read_file(path)
    network = network_view.read(call.client, name)
    changes = reservations.compare(reservations.parse(text, network, path=path), network)
    ranges = [str(run) for run in changes.missing]
    if len(ranges) > RANGES:
        raise errors.InvalidError(
            f"{path} has {len(ranges)} ranges to reserve, but one job can reserve at most {RANGES}",
            hint="split the file and import the parts",
        )
    code = 0
    if ranges:
        # ``force`` accepts large ranges; the parser has already required the CIDR form for them.
        op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, "add_reserved_ips": ranges, "force": True}
        code = submit.carry_out(call, op)
    verb = "to reserve" if call.options.dry_run or call.options.submit else "reserved"
    skipped = f"{changes.external} reserved externally already, {changes.used} in use, {changes.gateways} gateways"
    print(f"{changes.size} addresses {verb}; skipped: {skipped}")
    return code


def render(call: command.Call) -> int:
    """Write the configuration of a DHCP server."""
    from gantry.cli.output import dhcp, network_view

    options = call.options
    network = network_view.read(call.client, call.arguments[0])
    subnets = dhcp.subnets(network)
    if not subnets:
        raise errors.InvalidError(
            f"network {network.name} has no subnet with DHCP",
            hint=f"enable it: gnt-network modify --subnet IDENT:modify,dhcp=true {network.name}",
        )
    if options.server == "dnsmasq":
        text = dhcp.dnsmasq(network, domain=options.domain, interfaces=options.interface)
    else:
        subnet = _of_family(network, subnets, options.family)
        text = dhcp.kea(network, subnet, domain=options.domain, interfaces=options.interface)
    machine.write_file(options.output or "-", text)
    return 0


def _of_family(
    network: network_view.Network, subnets: list[network_view.Subnet], family: str | None
) -> network_view.Subnet:
    if not family and len(subnets) > 1:
        raise errors.InvalidError(
            f"network {network.name} has DHCP for IPv4 and IPv6, but Kea has a separate server for each",
            hint="choose one with --family 4 or --family 6",
        )
    of_family = [subnet for subnet in subnets if family in (None, str(subnet.cidr.version))]
    if not of_family:
        raise errors.InvalidError(f"network {network.name} has no IPv{family} subnet with DHCP")
    return of_family[0]


def _moment(text: str) -> float:
    return moments.parse(text, now=time.time())


AT = command.Option(
    ("--at",),
    "Show the state at this time: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h",
    "TIME",
    parse=_moment,
)
NETWORK = command.Argument("NETWORK", completes="network")
HISTORY_TEXT = """
    The history comes from the journal and reaches back as far as this master keeps the journal.
      gnt-network history --address 192.0.2.7 net1
      gnt-network history --at 2026-05-04T13:00 net1
    More columns show the opcode and the user; with -o, times include seconds:
      gnt-network history -o +opcode,user net1
    A removed network is found by its former name or UUID.
"""
MAP_TEXT = """
    A pool of more than 4096 addresses is shown as ranges of addresses with the same state.
"""
IMPORT_TEXT = """
    A line is an address, a range or a CIDR, then an optional comment, which is ignored. Addresses
    that are already reserved are skipped: external reservations, addresses in use, gateways. If a
    line is invalid, nothing is reserved and the error names the line. - reads standard input.
"""
DHCP_TEXT = """
    Every address of an instance in a subnet with DHCP is reserved for the NIC's MAC address; other
    machines get no address. Only the file is written: no service is restarted.
      gnt-network dhcp --for dnsmasq --output /etc/dnsmasq.d/net1.conf net1
      gnt-network dhcp --for kea --family 6 --output /etc/kea/kea-dhcp6.conf net1
"""

COMMANDS = (
    command.Command(
        "history",
        history,
        "Show which instance or port had which address, when, and by which job",
        (NETWORK,),
        (
            command.Option(("--address",), "Show only this address", "ADDRESS"),
            AT,
            command.Option(
                ("--limit",), "Show at most this many of the last rows", "COUNT", default=ROWS, parse=syntax.number
            ),
            *command.FIELDS_QUERY,
            command.Option(
                ("-o", "--output"),
                f"Set the columns, or +columns to add some: {', '.join(field.name for field in HISTORY)}",
                "FIELDS",
            ),
        ),
        text=HISTORY_TEXT,
    ),
    command.Command(
        "map",
        draw,
        "Draw the pools of a network",
        (NETWORK,),
        (
            command.Option(("--subnet",), "Draw only the pools of this subnet: CIDR, name or UUID", "IDENT"),
            command.Option(("--pool",), "Draw only the pool with this name or range", "NAME"),
        ),
        text=MAP_TEXT,
    ),
    command.Command(
        "export-reservations",
        export,
        "Write the reservations of a network as CSV to FILE, or to standard output",
        (NETWORK, command.Argument("FILE", minimum=0, completes="file")),
    ),
    command.Command(
        "import-reservations",
        import_file,
        "Reserve the addresses of a CSV file externally",
        (NETWORK, command.Argument("FILE", completes="file")),
        command.JOB,
        text=IMPORT_TEXT,
    ),
    command.Command(
        "dhcp",
        render,
        "Write the configuration of a DHCP server for a network",
        (NETWORK,),
        (
            command.Option(
                ("--for",),
                "Set the DHCP server",
                "SERVER",
                dest="server",
                choices=("dnsmasq", "kea"),
                default="dnsmasq",
            ),
            command.Option(
                ("--family",), "Set the IP version of Kea's file, if the network has both", "FAMILY", choices=("4", "6")
            ),
            command.Option(("--domain",), "Set the domain that the server sends to clients", "DOMAIN", default=""),
            command.Option(("--interface",), "Set an interface that the server listens on", "DEVICE", repeatable=True),
            command.Option(("--output",), "Write to this file instead of standard output", "FILE", completes="file"),
        ),
        text=DHCP_TEXT,
    ),
)
