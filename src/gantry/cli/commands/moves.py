"""The commands that move instances: of ``gnt-instance``, ``gnt-node`` and ``gnt-group``.

See contracts/commands.md#conventions.
"""

import sys

from gantry.cli import client, errors
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import terminal

Structure = syntax.Structure

INSTANCE_ARGUMENT = (command.Argument("INSTANCE", completes="instance", field="instance_name"),)
NODE_ARGUMENT = (command.Argument("NODE", completes="node", field="node_name"),)


def _confirm(call: command.Call, question: str, *, names: list[str] | None = None) -> None:
    """Ask for confirmation, except with ``-f``, ``--dry-run`` or ``--cleanup``."""
    if not (call.options.force or call.option("dry_run") or call.option("cleanup")):
        terminal.confirm(question, names=names or [])


def failover(call: command.Call) -> int:
    """Fail an instance over."""
    _confirm(call, f"The instance {call.arguments[0]} will be stopped and started on another node. Continue?")
    return submit.carry_out(call, call.opcode("OP_INSTANCE_FAILOVER"))


def migrate(call: command.Call) -> int:
    """Migrate an instance."""
    op = call.opcode("OP_INSTANCE_MIGRATE", **_mode(call))
    _confirm(call, f"The instance {call.arguments[0]} will be migrated to another node. Continue?")
    return submit.carry_out(call, op)


def _mode(call: command.Call) -> Structure:
    mode: str | None = call.options.migration_mode
    if call.options.non_live and mode not in (None, "non-live"):
        raise errors.InvalidError("--non-live and --migration-mode live exclude each other")
    return {"mode": "non-live"} if call.options.non_live else {}


def move(call: command.Call) -> int:
    """Copy an instance's disks to another node, and run it there."""
    name = call.arguments[0]
    if not call.options.node:
        raise errors.InvalidError("the target node is missing", hint=f"gnt-instance move -n NODE {name}")
    _confirm(call, f"The instance {name} will be stopped while its disks are copied. Continue?")
    return submit.carry_out(call, call.opcode("OP_INSTANCE_MOVE"))


def change_group(call: command.Call) -> int:
    """Move an instance to another node group."""
    return _carry_out_jobs(call, call.opcode("OP_INSTANCE_CHANGE_GROUP"))


def evacuate_group(call: command.Call) -> int:
    """Move all instances out of a node group."""
    return _carry_out_jobs(call, call.opcode("OP_GROUP_EVACUATE"))


def evacuate(call: command.Call) -> int:
    """Move instances and copies of disks off a node."""
    options = call.options
    if options.primary_only and options.secondary_only:
        raise errors.InvalidError("-p and -s exclude each other", hint="without both, everything is evacuated")
    mode = "primary-only" if options.primary_only else "secondary-only" if options.secondary_only else "all"
    op = call.opcode("OP_NODE_EVACUATE", mode=mode)
    _confirm(call, f"All instances and copies of disks on node {call.arguments[0]} will move. Continue?")
    return _carry_out_jobs(call, op)


def migrate_node(call: command.Call) -> int:
    """Migrate all instances that run on a node."""
    op = call.opcode("OP_NODE_MIGRATE", **_mode(call))
    _confirm(call, f"All instances that run on node {call.arguments[0]} will be migrated. Continue?")
    return _carry_out_jobs(call, op)


def failover_node(call: command.Call) -> int:
    """Fail over all instances of a node."""
    node = call.arguments[0]
    records = call.client.records("instance", ["name"], where=["=", "pnode", node])
    names = [str(record["name"]) for record in records]
    if not names:
        print(f"No instances on node {node}")
        return 0
    _confirm(call, f"These instances of node {node} will be stopped and started elsewhere:", names=names)
    ops = [(name, call.opcode("OP_INSTANCE_FAILOVER", instance_name=name)) for name in names]
    return submit.carry_out_many(call, ops)


def _carry_out_jobs(call: command.Call, op: Structure) -> int:
    """Submit an opcode that submits jobs, and wait for them; return 1 if a job failed or an instance cannot move."""
    job = submit.submit(call, op)
    if call.option("submit"):
        return 0
    submit.follow(call.client, job, log=sys.stdout)
    (result,) = submit.outcome(call.client, job)
    if call.option("dry_run"):
        submit.print_plan(result)
        return 0
    outcome = client.expect(result, dict)
    success = not outcome.get("stay")
    jobs = [answer for accepted, answer in outcome["jobs"] if accepted]
    for accepted, answer in outcome["jobs"]:
        if not accepted:
            print(f"job {job} could not submit another job: {answer}", file=sys.stderr)
            success = False
    print(f"Submitted jobs {', '.join(map(str, jobs))}" if jobs else "There is nothing to do", flush=True)
    succeeded = [submit.wait_for_job(call, f"instance move {number}", number) for number in jobs]
    return 0 if all(succeeded) and success else 1


FAILOVER = "OP_INSTANCE_FAILOVER"
MIGRATE = "OP_INSTANCE_MIGRATE"
MOVE = "OP_INSTANCE_MOVE"
NODE_MIGRATE = "OP_NODE_MIGRATE"
EVACUATE = "OP_NODE_EVACUATE"
GROUP_EVACUATE = "OP_GROUP_EVACUATE"

_TARGET = command.field_option(FAILOVER, "target_node", "-n", "--target-node", metavar="NODE", completes="node")
_POLICY = command.field_option(FAILOVER, "ignore_ipolicy", "--ignore-ipolicy")
_CLEANUP = command.field_option(FAILOVER, "cleanup", "--cleanup")
_CONSISTENCY = command.field_option(FAILOVER, "ignore_consistency", "--ignore-consistency")
_MODE = (
    command.Option(("--non-live",), "Pause the guest while its memory is sent"),
    command.field_option(MIGRATE, "mode", "--migration-mode", metavar="MODE"),
)
_OLD = (
    command.accepted("--no-runtime-changes", because="the memory stays unchanged"),
    command.accepted("--ignore-hvversions", because="versions of hypervisors are not compared"),
)
_TO = command.field_option(GROUP_EVACUATE, "target_groups", "--to", metavar="GROUP", repeatable=True, completes="group")
_EARLY = command.field_option(GROUP_EVACUATE, "early_release", "--early-release")
_SYNC = (
    command.field_option(FAILOVER, "keep", "--keep", metavar="WHICH"),
    command.field_option(FAILOVER, "wait_for_sync", "--wait-for-sync"),
)

INSTANCE_COMMANDS = (
    command.Command(
        "failover",
        failover,
        "Stop an instance and start it on another node",
        INSTANCE_ARGUMENT,
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
            An instance with mirrored disks starts on its secondary node. With -n it can start on any node:
            one of the two nodes that have its disks keeps its copy, and the instance starts on the new
            node as soon as the copy to it has begun.
        """,
    ),
    command.Command(
        "migrate",
        migrate,
        "Move a running instance to another node",
        INSTANCE_ARGUMENT,
        (
            command.FORCE,
            _TARGET,
            command.ALLOCATOR,
            *_MODE,
            command.field_option(MIGRATE, "allow_failover", "--allow-failover"),
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
        INSTANCE_ARGUMENT,
        (
            command.FORCE,
            command.field_option(MOVE, "target_node", "-n", "--node", metavar="NODE", completes="node"),
            command.field_option(MOVE, "compress", "--compress", metavar="PROGRAM"),
            command.field_option(MOVE, "ignore_consistency", "--ignore-consistency"),
            command.SHUTDOWN_TIMEOUT,
            _POLICY,
            *command.JOB,
        ),
    ),
    command.Command(
        "change-group",
        change_group,
        "Move an instance to another node group",
        INSTANCE_ARGUMENT,
        (
            _TO,
            command.ALLOCATOR,
            _EARLY,
            *command.JOB,
        ),
    ),
)

NODE_COMMANDS = (
    command.Command(
        "evacuate",
        evacuate,
        "Move instances and copies of disks off a node",
        NODE_ARGUMENT,
        (
            command.FORCE,
            command.Option(("-p", "--primary-only"), "Move only instances that run on the node"),
            command.Option(("-s", "--secondary-only"), "Move only copies of disks of instances that run elsewhere"),
            command.field_option(EVACUATE, "remote_node", "-n", "--new-secondary", metavar="NODE", completes="node"),
            command.ALLOCATOR,
            _EARLY,
            command.accepted("--ignore-soft-errors", because="an instance that cannot move never stops the others"),
            *command.JOB,
        ),
        text="""
            Each instance moves by a job of its own, all at the same time. Instances that cannot move are
            listed and stay.
        """,
    ),
    command.Command(
        "migrate",
        migrate_node,
        "Migrate all instances that run on a node",
        NODE_ARGUMENT,
        (
            command.FORCE,
            command.field_option(NODE_MIGRATE, "target_node", "-n", "--node", metavar="NODE", completes="node"),
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
        NODE_ARGUMENT,
        (command.FORCE, command.ALLOCATOR, _CONSISTENCY, *command.JOB),
    ),
)

GROUP_COMMANDS = (
    command.Command(
        "evacuate",
        evacuate_group,
        "Move all instances out of a node group",
        (command.Argument("GROUP", completes="group", field="group_name"),),
        (
            _TO,
            command.ALLOCATOR,
            _EARLY,
            command.field_option(GROUP_EVACUATE, "sequential", "--sequential"),
            command.field_option(GROUP_EVACUATE, "force_failover", "--force-failover"),
            *command.JOB,
        ),
    ),
)
