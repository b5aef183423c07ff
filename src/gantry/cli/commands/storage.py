"""The commands about storage: those of ``gnt-node`` for volumes and storage units, and ``gnt-cluster verify-disks``."""

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
    return _show(call, {"OP_ID": "OP_NODE_QUERYVOLS", "nodes": call.arguments}, VOLUMES)


def units(call: command.Call) -> int:
    """List the storage units of nodes."""
    op = {"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": call.arguments, "storage_type": call.options.storage_type}
    return _show(call, {key: value for key, value in op.items() if value}, UNITS)


def _show(call: command.Call, op: Mapping[str, object], titles: Mapping[str, str]) -> int:
    columns = query.chosen_columns(call.options.output, list(titles))
    found = submit.ask(call, {**op, "output_fields": columns})
    fields = [client.Field(name, titles.get(name, name), "unit" if name in SIZES else "text", "") for name in columns]
    rows: list[client.Row] = [
        [(0, value) if value is not None else (3, None) for value in row]
        for row in (found if isinstance(found, list) else [])
    ]
    return query.print_table(call, client.Table(fields, rows))


def modify(call: command.Call) -> int:
    """Keep new disks off a storage unit, or let them use it."""
    node, kind, name = call.arguments
    if call.options.allocatable is None:
        raise errors.InvalidError("nothing is to be changed", hint="--allocatable yes or no")
    op = {
        "OP_ID": "OP_NODE_MODIFY_STORAGE",
        "node_name": node,
        "storage_type": kind,
        "name": name,
        "changes": {"allocatable": call.options.allocatable == "yes"},
    }
    return submit.carry_out(call, op)


def repair(call: command.Call) -> int:
    """Take missing physical volumes out of a volume group."""
    node, kind, name = call.arguments
    op = {
        "OP_ID": "OP_REPAIR_NODE_STORAGE",
        "node_name": node,
        "storage_type": kind,
        "name": name,
        "ignore_consistency": call.options.ignore_consistency,
    }

    def report(result: object) -> None:
        for lost in result if isinstance(result, list) else []:
            print(f"lost: {lost}")

    return submit.carry_out(call, op, report=report)


def verify_disks(call: command.Call) -> int:
    """Look for disks of running instances that are not active, and activate them; tell what is gone."""
    group = {"group_name": call.options.node_group} if call.options.node_group else {}
    job = call.client.submit([submit.prepare(call, {"OP_ID": "OP_CLUSTER_VERIFY_DISKS", **group})])
    fine, inactive = True, []
    for found in submit.results(call.client, job, log=sys.stderr):
        silent, names, missing = found if isinstance(found, list) and len(found) == 3 else ({}, [], {})
        inactive += [str(name) for name in names]
        for node, why in sorted(silent.items()):
            fine = False
            print(f"node {node} does not answer: {why}")
        for name, places in sorted(missing.items()):
            fine = False
            for node, disk in places:
                print(f"instance {name}: {disk} is gone on node {node}")
    gone = (
        submit.carry_out_many(
            call, [(name, {"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name}) for name in inactive]
        )
        if inactive
        else 0
    )
    if fine and not inactive:
        print("No disks need to be activated.")
    return gone or (0 if fine else 1)


SOME = (command.Argument("NODE", least=0, most=None, completes="node"),)
NODE_COMMANDS = (
    command.Command("volumes", volumes, "List the logical volumes of nodes", SOME, command.QUERY),
    command.Command(
        "list-storage",
        units,
        "List the storage units of nodes",
        SOME,
        (
            command.Option(
                ("-t", "--storage-type"),
                "Which kind; without it that of the cluster's first kind of disks",
                "TYPE",
                choices=("file", "sharedfile", "lvm-vg", "lvm-pv"),
            ),
            *command.QUERY,
        ),
    ),
    command.Command(
        "modify-storage",
        modify,
        "Keep new disks off a physical volume, or let them use it",
        (command.Argument("NODE", completes="node"), command.Argument("TYPE"), command.Argument("NAME")),
        (
            command.Option(
                ("--allocatable",), "Whether new disks may take room of it", "YES|NO", choices=("yes", "no")
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
        "Take missing physical volumes out of a volume group",
        (command.Argument("NODE", completes="node"), command.Argument("TYPE"), command.Argument("NAME")),
        (
            command.Option(("--ignore-consistency",), "Give up disks that have no copy elsewhere"),
            *command.JOB,
        ),
    ),
)
CLUSTER_COMMANDS = (
    command.Command(
        "verify-disks",
        verify_disks,
        "Activate disks of running instances that are not active",
        (),
        (command.GROUP, *command.PRIORITY),
    ),
)
