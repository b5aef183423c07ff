"""``gnt-network address``: who has an address, or had it, in all networks.

``programs.network`` includes ``COMMAND``. The master answers with rows (QueryAddress); this module shows them.
"""

import sys
from collections.abc import Mapping

from gantry.cli import client, errors
from gantry.cli.commands import address_records
from gantry.cli.framework import command, query
from gantry.cli.grammar import syntax
from gantry.cli.output import documents, tables

FIELDS = (
    client.Field("address", "Address", "text", "The address, or a range of external reservations"),
    client.Field("network", "Network", "text", "Network; empty for a node, and for a NIC without a network"),
    client.Field("state", "State", "text", "in use, was in use, quarantined, external, gateway, node, free and so on"),
    client.Field("kind", "Kind", "text", "instance, running guest, port, claim, node or job"),
    client.Field("owner", "Owner", "text", "Name of the owner"),
    client.Field("nic", "NIC", "number", "Number of the instance's NIC"),
    client.Field("mac", "MAC", "text", "MAC address of the owner"),
    client.Field("pool", "Pool", "text", "Name or range of the pool that contains the address"),
    client.Field("subnet", "Subnet", "text", "CIDR of the subnet that contains the address"),
    client.Field("from", "From", "timestamp", "Since when; empty if before the records begin"),
    client.Field("to", "To", "timestamp", "Time of the release, or the end of a quarantine"),
    client.Field("job", "Job", "number", "Job that caused the state"),
    client.Field("opcode", "OpCode", "text", "Opcode of that job"),
    client.Field("user", "User", "text", "User who requested the job"),
    client.Field("reason", "Reason", "text", "Reason of the job"),
    client.Field("end_job", "EndJob", "number", "Job that released the address"),
    client.Field("end_opcode", "EndOpCode", "text", "Opcode that released the address"),
    client.Field("end_user", "EndUser", "text", "User who requested the release"),
    client.Field("end_reason", "EndReason", "text", "Reason of the release"),
    client.Field("owner_uuid", "OwnerUUID", "text", "UUID of the owner"),
    client.Field("network_uuid", "NetworkUUID", "text", "UUID of the network"),
)
DEFAULT_COLUMNS = ("address", "network", "state", "kind", "owner", "pool", "from", "to", "job", "user")
FORMATTERS = {"from": documents.minute, "to": documents.minute}
ROWS = 1000
"""Default number of rows."""


def show(call: command.Call) -> int:
    """Show who has an address, or had it."""
    moment, past, limit = call.option("at"), bool(call.option("history")), call.option("limit")
    if past and moment is not None:
        raise errors.InvalidError("--at and --history exclude each other")
    if limit < 1:
        raise errors.InvalidError("--limit must be at least 1")
    answer = client.expect(call.client.call("QueryAddress", call.arguments[0], moment, past, limit), dict)
    rows = client.expect(answer.get("rows"), list)
    known = {field.name: field for field in FIELDS}
    columns = query.chosen_columns(call.option("output"), DEFAULT_COLUMNS)
    fields = [known.get(name) or client.Field(name, name, "unknown", "") for name in columns]
    table = client.Table(fields, [[_cell(row, field) for field in fields] for row in rows])
    has_own_format = call.option("output") or call.option("separator") or call.option("format") != "table"
    code = query.print_table(call, table, formatters=tables.NO_FORMATTERS if has_own_format else FORMATTERS)
    for line in _remarks(call.arguments[0], moment, answer, past=past):
        print(line, file=sys.stderr)
    return code


def _cell(row: Mapping[str, object], field: client.Field) -> tuple[int, object]:
    if field.kind == "unknown":
        return 1, None
    value = row.get(field.name)
    return (3, None) if value is None or value == "" else (0, value)


def _remarks(text: str, moment: float | None, answer: Mapping[str, object], *, past: bool) -> list[str]:
    """Return what the rows do not say: that some are missing, or that nothing is known."""
    rows, since = client.expect(answer.get("rows"), list), answer.get("since")
    remarks = []
    if not answer.get("complete", True):
        remarks.append(f"Only the first {len(rows)} rows are shown; --limit shows more")
    if not answer.get("dated", True):
        remarks.append("From, job and user are shown for at most 100 rows; ask for a single address")
    if moment is not None and isinstance(since, int | float) and moment < since:
        remarks.append(f"There are no records of that time: they begin at {documents.clock(since)}")
    elif not rows and moment is not None:
        remarks.append(f"No instance or port had {text} at that time")
    elif not rows and past:
        remarks.append(f"No instance or port had {text} since the records begin")
    elif not rows:
        remarks.append(f"No address of {text} is in use or reserved")
    return remarks


TEXT = """
    The argument is an address, a MAC address, a CIDR, or the name of an instance, port, node or network.
    The answer covers all networks: addresses of instances, ports, claims and nodes, external reservations,
    gateways and addresses in quarantine.
      gnt-network address 192.0.2.20
      gnt-network address --at 2026-05-04T13:00 192.0.2.20
      gnt-network address --history web1.example
      gnt-network address --format csv 192.0.2.0/24
"""

COMMAND = command.Command(
    "address",
    show,
    "Show who has an address, since when, and by which job",
    (command.Argument("ADDRESS"),),
    (
        address_records.AT,
        command.Option(("--history",), "Show all present and former owners that the journal knows"),
        command.Option(("--limit",), "Show at most this many rows", "COUNT", default=ROWS, parse=syntax.number),
        *command.FIELDS_QUERY,
        command.Option(
            ("-o", "--output"),
            f"Set the columns, or +columns to add some: {', '.join(field.name for field in FIELDS)}",
            "FIELDS",
        ),
    ),
    text=TEXT,
)
