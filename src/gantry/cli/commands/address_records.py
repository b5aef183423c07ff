"""The commands of ``gnt-network`` that tell of addresses: history, map, reservations as CSV, DHCP configuration.

``programs.network`` has ``COMMANDS`` among its own. What a file or a drawing looks like is in ``cli.output.pool_map``,
``cli.output.reservations`` and ``cli.output.dhcp``, which are pure; here are the options, the questions to the master
and the files. A command imports what only it needs, because every ``gnt-network`` command imports this module.
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
    client.Field("instance", "Instance", "text", "Instance, or port, that has or had it"),
    client.Field("kind", "Kind", "text", "Which of the two it is"),
    client.Field("from", "From", "timestamp", "Since when; nothing if before the records begin"),
    client.Field("to", "To", "timestamp", "Until when; nothing while it lasts"),
    client.Field("job", "Job", "number", "Job that gave it"),
    client.Field("opcode", "OpCode", "text", "Opcode that gave it"),
    client.Field("user", "User", "text", "Who asked for it"),
    client.Field("reason", "Reason", "text", "Why"),
    client.Field("end_job", "EndJob", "number", "Job that took it back"),
    client.Field("end_opcode", "EndOpCode", "text", "Opcode that took it back"),
    client.Field("end_user", "EndUser", "text", "Who asked for that"),
    client.Field("end_reason", "EndReason", "text", "Why"),
    client.Field("instance_uuid", "InstanceUUID", "text", "UUID of the instance or port"),
    client.Field("network_uuid", "NetworkUUID", "text", "UUID of the network"),
)
SHOWN = ("address", "instance", "from", "to", "job", "reason")
SHORT = {"from": output_documents.minute, "to": output_documents.minute}
ROWS = 1000
"""Rows of a history when nobody says how many."""

EVERYBODY = 1_000_000
"""Rows of a history that shall have all who had an address at a moment."""

RANGES = 4096
"""External reservations that one opcode takes."""


def history(call: command.Call) -> int:
    """Show who had which address of a network."""
    limit = call.option("limit")
    if limit < 1:
        raise errors.InvalidError("--limit has to be 1 or more")
    found = _past(call, call.arguments[0], address=call.option("address"), limit=limit + 1)
    rows = client.expect(found.get("rows"), list)
    shown = rows[-limit:]
    known = {field.name: field for field in HISTORY}
    columns = query.chosen_columns(call.option("output"), SHOWN)
    fields = [known.get(name) or client.Field(name, name, "unknown", "") for name in columns]
    table = client.Table(fields, [[_cell(row, field) for field in fields] for row in shown])
    chosen = call.option("output") or call.option("separator") or call.option("format") != "table"
    code = query.print_table(call, table, formatters=tables.NO_FORMATTERS if chosen else SHORT)
    if len(rows) > len(shown):
        print(f"Only the last {len(shown)} are shown; --limit shows more", file=sys.stderr)
    moment = call.option("at")
    since = found.get("since")
    if moment is not None and isinstance(since, int | float) and moment < since:
        print(f"Nothing is known of that time: the records begin at {output_documents.clock(since)}", file=sys.stderr)
    return code


def _past(call: command.Call, name: str, *, address: str | None, limit: int) -> Mapping[str, object]:
    return client.expect(call.client.call("QueryNetworkHistory", name, address, call.option("at"), limit), dict)


def _cell(row: Mapping[str, object], field: client.Field) -> tuple[int, object]:
    if field.kind == "unknown":
        return 1, None
    value = row.get(field.name)
    return (3, None) if value is None or value == "" else (0, value)


def info_at(call: command.Call) -> int:
    """Show networks as they were at a moment, with the addresses that instances and ports had there then."""
    documents = []
    for name in call.arguments:
        found = _past(call, name, address=None, limit=EVERYBODY)
        network = found.get("network")
        if not isinstance(network, dict):
            when = output_documents.clock(call.option("at"))
            raise errors.CommandError(f"the records know of no network {name} at {when}")
        documents.append(_described(network, client.expect(found.get("rows"), list), call.option("at")))
    if not documents:
        raise errors.InvalidError("--at needs the name of a network")
    print(output_documents.document(documents))
    return 0


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
    subnets = [network_view.chosen(network, call.option("subnet"))] if call.option("subnet") else network.subnets
    wanted = call.option("pool")
    places = [
        (subnet, pool) for subnet in subnets for pool in subnet.pools if wanted in (None, pool.name, str(pool.range))
    ]
    if not places:
        named = f"pool {wanted}" if wanted else "pool"
        raise errors.InvalidError(f"network {network.name} has no {named} there", hint="gnt-network info shows them")
    canvas = _canvas()
    used = {version: [int(one) for one in network.used() if one.version == version] for version in (4, 6)}
    for subnet, pool in places:
        for line in pool_map.draw(pool, subnet, used[pool.range.version], canvas=canvas):
            print(line)
        print()
    for line in pool_map.legend(canvas):
        print(line)
    return 0


def _canvas() -> pool_map.Canvas:
    """Return what a terminal has room for; what is no terminal takes any width and no colours."""
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


def take_in(call: command.Call) -> int:
    """Reserve addresses externally that a CSV file names."""
    from gantry.cli.output import network_view, reservations

    name, path = call.arguments
    text = machine.read_file(path)
    network = network_view.read(call.client, name)
    found = reservations.find(reservations.parse(text, network, path=path), network)
    ranges = [str(run) for run in found.missing]
    if len(ranges) > RANGES:
        raise errors.InvalidError(
            f"{path} comes to {len(ranges)} ranges, and {RANGES} go into one job", hint="import it in parts"
        )
    code = 0
    if ranges:
        # Whether large ranges are meant was asked of the file.
        op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, "add_reserved_ips": ranges, "force": True}
        code = submit.carry_out(call, op)
    verb = "to reserve" if call.options.dry_run or call.options.submit else "reserved"
    left_out = f"{found.external} reserved externally already, {found.used} in use, {found.gateways} gateways"
    print(f"{found.size} addresses {verb}; left out: {left_out}")
    return code


def render(call: command.Call) -> int:
    """Write the configuration of a DHCP server."""
    from gantry.cli.output import dhcp, network_view

    options = call.options
    network = network_view.read(call.client, call.arguments[0])
    found = dhcp.subnets(network)
    if not found:
        raise errors.InvalidError(
            f"network {network.name} has no subnet with dhcp",
            hint=f"gnt-network modify --subnet IDENT:modify,dhcp=true {network.name}",
        )
    if options.server == "dnsmasq":
        text = dhcp.dnsmasq(network, domain=options.domain, interfaces=options.interface)
    else:
        subnet = _of_family(network, found, options.family)
        text = dhcp.kea(network, subnet, domain=options.domain, interfaces=options.interface)
    machine.write_file(options.output or "-", text)
    return 0


def _of_family(
    network: network_view.Network, found: list[network_view.Subnet], family: str | None
) -> network_view.Subnet:
    if not family and len(found) > 1:
        raise errors.InvalidError(
            f"network {network.name} has DHCP for IPv4 and IPv6, and Kea a server for each",
            hint="say which by --family 4 or --family 6",
        )
    of_family = [one for one in found if family in (None, str(one.cidr.version))]
    if not of_family:
        raise errors.InvalidError(f"network {network.name} has no IPv{family} subnet with dhcp")
    return of_family[0]


def _moment(text: str) -> float:
    return moments.parse(text, now=time.time())


AT = command.Option(
    ("--at",),
    "As it was then: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h",
    "TIME",
    parse=_moment,
)
ONE = command.Argument("NETWORK", completes="network")
HISTORY_TEXT = """
    The answer comes from the journal: it reaches back as far as this master keeps it.
      gnt-network history --address 192.0.2.7 net1
      gnt-network history --at 2026-05-04T13:00 net1
    By which opcode and for whom, and times with their seconds, is shown with more columns:
      gnt-network history -o +opcode,user net1
    A network that is gone is found by the name or UUID that it had.
"""
MAP_TEXT = """
    A pool of more than 4096 addresses is shown as runs.
"""
IMPORT_TEXT = """
    A line is an address, a range or a CIDR, then a comment for people, which is not kept. What
    is reserved already is left out: external reservations, addresses in use, gateways. A line
    that is wrong stops all, and its number is told. - reads the standard input.
"""
DHCP_TEXT = """
    Every address of an instance in a subnet with dhcp is reserved for its MAC address; nobody
    else gets one. The file is written, no service is touched.
      gnt-network dhcp --for dnsmasq --output /etc/dnsmasq.d/net1.conf net1
      gnt-network dhcp --for kea --family 6 --output /etc/kea/kea-dhcp6.conf net1
"""

COMMANDS = (
    command.Command(
        "history",
        history,
        "Show who had which address, from when to when, by which job",
        (ONE,),
        (
            command.Option(("--address",), "Only this address", "ADDRESS"),
            AT,
            command.Option(
                ("--limit",), "How many rows at most, the last ones", "COUNT", default=ROWS, parse=syntax.number
            ),
            *command.FIELDS_QUERY,
            command.Option(
                ("-o", "--output"), f"Columns, or +more columns, of {', '.join(one.name for one in HISTORY)}", "FIELDS"
            ),
        ),
        text=HISTORY_TEXT,
    ),
    command.Command(
        "map",
        draw,
        "Draw the pools of a network",
        (ONE,),
        (
            command.Option(("--subnet",), "Only the pools of this subnet: CIDR, name or UUID", "IDENT"),
            command.Option(("--pool",), "Only the pool of this name or range", "NAME"),
        ),
        text=MAP_TEXT,
    ),
    command.Command(
        "export-reservations",
        export,
        "Write what is reserved in a network as CSV, without a FILE to the standard output",
        (ONE, command.Argument("FILE", least=0, completes="file")),
    ),
    command.Command(
        "import-reservations",
        take_in,
        "Reserve externally what a CSV file names",
        (ONE, command.Argument("FILE", completes="file")),
        command.JOB,
        text=IMPORT_TEXT,
    ),
    command.Command(
        "dhcp",
        render,
        "Write the configuration of a DHCP server for a network",
        (ONE,),
        (
            command.Option(
                ("--for",), "Which server", "SERVER", dest="server", choices=("dnsmasq", "kea"), default="dnsmasq"
            ),
            command.Option(
                ("--family",), "IP version of Kea's file, where the network has both", "FAMILY", choices=("4", "6")
            ),
            command.Option(("--domain",), "Domain that clients are told", "DOMAIN", default=""),
            command.Option(("--interface",), "Interface that the server listens on", "DEVICE", many=True),
            command.Option(("--output",), "File to write instead of the standard output", "FILE", completes="file"),
        ),
        text=DHCP_TEXT,
    ),
)
