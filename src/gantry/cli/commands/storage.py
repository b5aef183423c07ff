"""The storage commands of ``gnt-node``, and ``gnt-cluster verify-disks``."""

import sys
from collections.abc import Mapping

from gantry.cli import client, errors
from gantry.cli.framework import command, query, submit

VOLUMES = {
    "node": "Node",
    "phys": "PhysDev",
    "vg": "VG",
    "name": "Name",
    "size": "Size",
    "instance": "Instance",
}
UNITS = {
    "node": "Node",
    "type": "Type",
    "name": "Name",
    "size": "Size",
    "used": "Used",
    "free": "Free",
    "allocatable": "Allocatable",
}
SIZES = ("size", "used", "free")


def volumes(call: command.Call) -> int:
    """List the logical volumes of nodes."""
    return _show(call, call.opcode("OP_NODE_QUERYVOLS", nodes=call.arguments), VOLUMES)


def units(call: command.Call) -> int:
    """List the storage units of nodes."""
    return _show(call, call.opcode("OP_NODE_QUERY_STORAGE", nodes=call.arguments), UNITS)


def _show(call: command.Call, op: Mapping[str, object], titles: Mapping[str, str]) -> int:
    columns = query.chosen_columns(call.options.output, list(titles))
    answer = submit.query(call, {**op, "output_fields": columns})
    fields = [client.Field(name, titles.get(name, name), "unit" if name in SIZES else "text", "") for name in columns]
    rows: list[client.Row] = [
        [(0, value) if value is not None else (3, None) for value in row]
        for row in (answer if isinstance(answer, list) else [])
    ]
    return query.print_table(call, client.Table(fields, rows))


def modify(call: command.Call) -> int:
    """Allow or forbid new disks on a storage unit."""
    if call.options.allocatable is None:
        raise errors.InvalidError("nothing to change", hint="give --allocatable yes or --allocatable no")
    changes = {"allocatable": call.options.allocatable == "yes"}
    return submit.carry_out(call, call.opcode("OP_NODE_MODIFY_STORAGE", changes=changes))


def repair(call: command.Call) -> int:
    """Remove missing physical volumes from a volume group."""

    def report(result: object) -> None:
        for lost in result if isinstance(result, list) else []:
            print(f"lost: {lost}")

    return submit.carry_out(call, call.opcode("OP_REPAIR_NODE_STORAGE"), report=report)


def verify_disks(call: command.Call) -> int:
    """Activate the inactive disks of running instances, and print the missing disks."""
    job = call.client.submit([submit.prepare(call, call.opcode("OP_CLUSTER_VERIFY_DISKS"))])
    success, inactive = True, []
    for result in submit.results(call.client, job, log=sys.stderr):
        unreachable, names, missing = result if isinstance(result, list) and len(result) == 3 else ({}, [], {})
        inactive += [str(name) for name in names]
        for node, reason in sorted(unreachable.items()):
            success = False
            print(f"node {node} does not answer: {reason}")
        for name, disks in sorted(missing.items()):
            success = False
            for node, disk in disks:
                print(f"instance {name}: disk {disk} is missing on node {node}")
    code = (
        submit.carry_out_many(
            call, [(name, call.opcode("OP_INSTANCE_ACTIVATE_DISKS", instance_name=name)) for name in inactive]
        )
        if inactive
        else 0
    )
    if success and not inactive:
        print("No disks need to be activated.")
    return code or (0 if success else 1)


UNIT = (
    command.Argument("NODE", completes="node", field="node_name"),
    command.Argument("TYPE", field="storage_type"),
    command.Argument("NAME", field="name"),
)
NODES = (command.Argument("NODE", minimum=0, maximum=None, completes="node"),)
NODE_COMMANDS = (
    command.Command(
        "volumes", volumes, "List the logical volumes of nodes", NODES, (*command.QUERY, *command.PRIORITY)
    ),
    command.Command(
        "list-storage",
        units,
        "List the storage units of nodes",
        NODES,
        (
            command.field_option(
                "OP_NODE_QUERY_STORAGE",
                "storage_type",
                "-t",
                "--storage-type",
                help="List storage of this type; by default that of the cluster's first disk template",
                metavar="TYPE",
            ),
            *command.QUERY,
            *command.PRIORITY,
        ),
    ),
    command.Command(
        "modify-storage",
        modify,
        "Allow or forbid new disks on a physical volume",
        UNIT,
        (
            command.Option(
                ("--allocatable",), "Allow new disks on the physical volume: yes or no", "YES|NO", choices=("yes", "no")
            ),
            *command.JOB,
        ),
        text="""
            gnt-node modify-storage --allocatable no node1 lvm-pv /dev/sdb
        """,
    ),
    command.Command(
        "repair-storage",
        repair,
        "Remove missing physical volumes from a volume group",
        UNIT,
        (
            command.field_option("OP_REPAIR_NODE_STORAGE", "ignore_consistency", "--ignore-consistency"),
            *command.JOB,
        ),
    ),
)
CLUSTER_COMMANDS = (
    command.Command(
        "verify-disks",
        verify_disks,
        "Activate the inactive disks of running instances",
        (),
        (command.GROUP, *command.PRIORITY),
    ),
)
