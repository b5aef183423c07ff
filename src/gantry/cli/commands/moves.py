"""The commands that move instances: of ``gnt-instance``, ``gnt-node`` and ``gnt-group`` (contract: command line)."""

import sys

from gantry.cli import client, errors
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import terminal

Structure = syntax.Structure

ONE = (command.Argument("INSTANCE", completes="instance"),)
NODE = (command.Argument("NODE", completes="node"),)


def _asked(call: command.Call, op: Structure, question: str, *, names: list[str] | None = None) -> Structure:
    """Ask whether to go on, unless ``-f`` or a dry run says so; return the opcode without what was not given."""
    if not (call.options.force or call.option("dry_run") or call.option("cleanup")):
        terminal.confirm(question, names=names or [], exit_code=13 if call.program == "gnt-node" else 1)
    return {key: value for key, value in op.items() if value not in (None, False, ())}


def failover(call: command.Call) -> int:
    """Fail an instance over."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": name,
        "target_node": options.target_node,
        "iallocator": options.iallocator,
        "ignore_consistency": options.ignore_consistency,
        "shutdown_timeout": options.shutdown_timeout,
        "ignore_ipolicy": options.ignore_ipolicy,
        "cleanup": options.cleanup,
        "keep": options.keep,
        "wait_for_sync": options.wait_for_sync,
    }
    return submit.carry_out(
        call, _asked(call, op, f"The instance {name} will be stopped and started on another node. Continue?")
    )


def migrate(call: command.Call) -> int:
    """Migrate an instance."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": name,
        "mode": _mode(call),
        "target_node": options.target_node,
        "iallocator": options.iallocator,
        "cleanup": options.cleanup,
        "allow_failover": options.allow_failover,
        "ignore_ipolicy": options.ignore_ipolicy,
    }
    return submit.carry_out(call, _asked(call, op, f"The instance {name} will be migrated to another node. Continue?"))


def _mode(call: command.Call) -> str | None:
    mode: str | None = call.options.migration_mode
    if call.options.non_live and mode not in (None, "non-live"):
        raise errors.InvalidError("--non-live and --migration-mode live exclude each other")
    return "non-live" if call.options.non_live else mode


def move(call: command.Call) -> int:
    """Copy an instance's disks to another node, and run it there."""
    name, options = call.arguments[0], call.options
    if not options.node:
        raise errors.InvalidError("the node that it goes to is needed", hint=f"gnt-instance move -n NODE {name}")
    op = {
        "OP_ID": "OP_INSTANCE_MOVE",
        "instance_name": name,
        "target_node": options.node,
        "shutdown_timeout": options.shutdown_timeout,
        "ignore_consistency": options.ignore_consistency,
        "ignore_ipolicy": options.ignore_ipolicy,
        "compress": options.compress,
    }
    return submit.carry_out(
        call, _asked(call, op, f"The instance {name} will stand still while its disks are copied. Continue?")
    )


def change_group(call: command.Call) -> int:
    """Bring an instance to another node group."""
    options = call.options
    op = {
        "OP_ID": "OP_INSTANCE_CHANGE_GROUP",
        "instance_name": call.arguments[0],
        "target_groups": options.to,
        "iallocator": options.iallocator,
        "early_release": options.early_release,
    }
    return _carry_out_jobs(call, {key: value for key, value in op.items() if value})


def evacuate_group(call: command.Call) -> int:
    """Empty a node group."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_GROUP_EVACUATE",
        "group_name": name,
        "target_groups": options.to,
        "iallocator": options.iallocator,
        "early_release": options.early_release,
        "sequential": options.sequential,
        "force_failover": options.force_failover,
    }
    return _carry_out_jobs(call, {key: value for key, value in op.items() if value})


def evacuate(call: command.Call) -> int:
    """Empty a node."""
    name, options = call.arguments[0], call.options
    if options.primary_only and options.secondary_only:
        raise errors.InvalidError("-p and -s exclude each other", hint="without both, all is evacuated")
    mode = "primary-only" if options.primary_only else "secondary-only" if options.secondary_only else "all"
    op = {
        "OP_ID": "OP_NODE_EVACUATE",
        "node_name": name,
        "mode": mode,
        "remote_node": options.new_secondary,
        "iallocator": options.iallocator,
        "early_release": options.early_release,
    }
    return _carry_out_jobs(call, _asked(call, op, f"All that node {name} has of instances will move. Continue?"))


def migrate_node(call: command.Call) -> int:
    """Migrate all that runs on a node."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_NODE_MIGRATE",
        "node_name": name,
        "mode": _mode(call),
        "target_node": options.node,
        "iallocator": options.iallocator,
        "ignore_ipolicy": options.ignore_ipolicy,
    }
    return _carry_out_jobs(call, _asked(call, op, f"All that runs on node {name} will be migrated. Continue?"))


def failover_node(call: command.Call) -> int:
    """Fail over all instances of a node."""
    name, options = call.arguments[0], call.options
    found = call.client.records("instance", ["name"], where=["=", "pnode", name])
    names = [str(record["name"]) for record in found]
    if not names:
        print(f"No instances on node {name}")
        return 0
    op = {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "ignore_consistency": options.ignore_consistency,
        "iallocator": options.iallocator,
    }
    given = _asked(call, op, f"These instances of node {name} will be stopped and started elsewhere:", names=names)
    return submit.carry_out_many(call, [(one, given | {"instance_name": one}) for one in names])


def _carry_out_jobs(call: command.Call, op: Structure) -> int:
    """Submit an opcode that leaves its work to jobs, and wait for them; 1 when one failed or an instance stays."""
    job = submit.submit(call, op)
    if call.option("submit"):
        return 0
    submit.follow(call.client, job, log=sys.stdout)
    (result,) = submit.outcome(call.client, job)
    if call.option("dry_run"):
        submit.print_plan(result)
        return 0
    found = client.expect(result, dict)
    good = not found.get("stay")
    jobs = [answer for accepted, answer in found["jobs"] if accepted]
    for accepted, answer in found["jobs"]:
        if not accepted:
            print(f"job {job} could not submit another one: {answer}", file=sys.stderr)
            good = False
    print(f"Submitted jobs {', '.join(map(str, jobs))}" if jobs else "There is nothing to do", flush=True)
    ended = [submit.waited_for(call, f"instance move {number}", number) for number in jobs]
    return 0 if all(ended) and good else 1


_TARGET = command.Option(("-n", "--target-node"), "Node that it goes to", "NODE", completes="node")
_POLICY = command.Option(("--ignore-ipolicy",), "Let it be larger or smaller than the policy of its new group says")
_CLEANUP = command.Option(("--cleanup",), "Find out where it is after an interrupted move, and end that")
_CONSISTENCY = command.Option(
    ("--ignore-consistency",), "Go on though the node it leaves does not answer, or a copy of its disks is behind"
)
_MODE = (
    command.Option(("--non-live",), "Let the guest stand still while it is sent"),
    command.Option(("--migration-mode",), "The same in other words", "MODE", choices=("live", "non-live")),
)
_OLD = (
    command.Option(("--no-runtime-changes",), "Taken for older scripts"),
    command.Option(("--ignore-hvversions",), "Taken for older scripts"),
)
_TO = command.Option(
    ("--to",), "Node group that it may go to; without one, any other", "GROUP", many=True, completes="group"
)
_EARLY = command.Option(("--early-release",), "Give an old copy of a disk up before the new one is complete")
_SYNC = (
    command.Option(
        ("--keep",),
        "Which node keeps its copy of mirrored disks when a third one is the target; the secondary, if it works",
        "WHICH",
        choices=("primary", "secondary"),
    ),
    command.Option(("--wait-for-sync",), "Start it only when the new copy of its disks is complete"),
)

INSTANCE = (
    command.Command(
        "failover",
        failover,
        "Stop an instance and start it on another node",
        ONE,
        (
            command.FORCE,
            _TARGET,
            command.ALLOCATOR,
            _CONSISTENCY,
            *_SYNC,
            command.SHUTDOWN_TIMEOUT,
            _POLICY,
            _CLEANUP,
            *command.JOB,
        ),
        text="""
            Mirrored disks go to the secondary node, or with -n to any: one of the two nodes that have
            them keeps its copy, the new one gets its own, and the instance starts as soon as that copy
            is on its way.
        """,
    ),
    command.Command(
        "migrate",
        migrate,
        "Move a running instance to another node",
        ONE,
        (
            command.FORCE,
            _TARGET,
            command.ALLOCATOR,
            *_MODE,
            command.Option(("--allow-failover",), "Fail over where it does not run or cannot be migrated"),
            _POLICY,
            _CLEANUP,
            *_OLD,
            *command.JOB,
        ),
    ),
    command.Command(
        "move",
        move,
        "Copy an instance's disks to another node and run it there",
        ONE,
        (
            command.FORCE,
            command.NODE,
            command.Option(
                ("--compress",), "Program that compresses the copy", "PROGRAM", choices=("none", "gzip"), default="none"
            ),
            command.Option(("--ignore-consistency",), "Go on though it cannot be stopped in an orderly way"),
            command.SHUTDOWN_TIMEOUT,
            _POLICY,
            *command.JOB,
        ),
    ),
    command.Command(
        "change-group",
        change_group,
        "Bring an instance to another node group",
        ONE,
        (
            _TO,
            command.ALLOCATOR,
            _EARLY,
            *command.JOB,
        ),
    ),
)

NODES = (
    command.Command(
        "evacuate",
        evacuate,
        "Bring what a node has of instances to other nodes",
        NODE,
        (
            command.FORCE,
            command.Option(("-p", "--primary-only"), "Only instances that run there"),
            command.Option(("-s", "--secondary-only"), "Only copies of disks of instances that run elsewhere"),
            command.Option(("-n", "--new-secondary"), "Node that all of it goes to", "NODE", completes="node"),
            command.ALLOCATOR,
            _EARLY,
            command.Option(("--ignore-soft-errors",), "Taken for older scripts"),
            *command.JOB,
        ),
        text="""
            Each instance moves by a job of its own, and as many at once as there are. What cannot move
            is named, and stays.
        """,
    ),
    command.Command(
        "migrate",
        migrate_node,
        "Migrate all instances that run on a node",
        NODE,
        (
            command.FORCE,
            command.Option(("-n", "--node"), "Node that they all go to", "NODE", completes="node"),
            command.ALLOCATOR,
            *_MODE,
            _POLICY,
            _OLD[0],
            *command.JOB,
        ),
    ),
    command.Command(
        "failover",
        failover_node,
        "Stop all instances of a node and start them elsewhere",
        NODE,
        (command.FORCE, command.ALLOCATOR, _CONSISTENCY, *command.JOB),
    ),
)

GROUPS = (
    command.Command(
        "evacuate",
        evacuate_group,
        "Bring all instances of a node group to others",
        (command.Argument("GROUP", completes="group"),),
        (
            _TO,
            command.ALLOCATOR,
            _EARLY,
            command.Option(("--sequential",), "One instance after the other"),
            command.Option(("--force-failover",), "Stop them and start them there, instead of migrating"),
            *command.JOB,
        ),
    ),
)
