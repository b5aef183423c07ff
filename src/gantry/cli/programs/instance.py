"""``gnt-instance``: virtual machines."""

import os

from gantry.cli import errors, machine
from gantry.cli.commands import creation, disks, moves, reinstall, selection, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import nics, syntax
from gantry.cli.output import documents, object_info, terminal

ABOUT = "Creates, runs and shows virtual machines."

LISTING = query.Listing("instance", ("name", "hypervisor", "os", "pnode", "status", "oper_ram"))
ONE = (command.Argument("INSTANCE", completes="instance"),)


def add(call: command.Call) -> int:
    """Create an instance."""
    return submit.carry_out(call, creation.opcode(call))


def modify(call: command.Call) -> int:
    """Change an instance and say what was changed."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_INSTANCE_SET_PARAMS",
        "instance_name": name,
        "nics": options.net,
        "disks": options.disk,
        "hvparams": options.hypervisor or {},
        "beparams": options.backend_parameters or {},
        "osparams": options.os_parameters or {},
        "force": options.force,
        "hotplug": not options.no_hotplug,
        "conflicts_check": not options.no_conflicts_check,
    }
    if options.offline and options.online:
        raise errors.InvalidError("--offline and --online exclude each other")
    op |= {"ignore_ipolicy": True} if options.ignore_ipolicy else {}
    op |= {"wait_for_sync": False} if options.no_wait_for_sync else {}
    op |= {"runtime_mem": options.runtime_memory} if options.runtime_memory is not None else {}
    op |= {"offline": options.offline} if options.offline or options.online else {}
    op |= {"osparams_private": options.os_parameters_private} if options.os_parameters_private else {}
    op |= disks.conversion(call)
    if not any(
        op.get(key) for key in ("nics", "disks", "hvparams", "beparams", "osparams", "runtime_mem", "disk_template")
    ) and not op.keys() & {"offline", "osparams_private"}:
        raise errors.InvalidError("Please give at least one of the parameters.", hint="--net, --disk, -t, -H, -B or -O")
    if options.no_hotplug and (options.hotplug or options.hotplug_if_possible):
        raise errors.InvalidError("--hotplug and --no-hotplug exclude each other")

    def report(result: object) -> None:
        print(f"Modified instance {name}")
        for parameter, value in result if isinstance(result, list) else []:
            print(f" - {parameter:<5} -> {_shown(value)}")

    return submit.carry_out(call, op, report=report)


def _shown(value: object) -> str:
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"


def info(call: command.Call) -> int:
    """Show instances in full."""
    if bool(call.arguments) == bool(call.options.all):
        raise errors.InvalidError("name instances, or give --all alone")
    op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": call.arguments, "static": call.options.static}
    found = submit.ask(call, op)
    print(documents.document([object_info.instance(one) for one in _values(found)]))
    return 0


def _values(found: object) -> list[object_info.Record]:
    return list(found.values()) if isinstance(found, dict) else []


def start(call: command.Call) -> int:
    """Start instances."""
    options = call.options
    op = {
        "OP_ID": "OP_INSTANCE_STARTUP",
        "force": options.force,
        "hvparams": options.hypervisor or {},
        "beparams": options.backend_parameters or {},
        "no_remember": options.no_remember,
        "startup_paused": options.paused,
    }
    return _each(call, op, verb="startup")


def stop(call: command.Call) -> int:
    """Shut instances down."""
    options = call.options
    op = {
        "OP_ID": "OP_INSTANCE_SHUTDOWN",
        "force": options.force,
        "timeout": options.timeout,
        "no_remember": options.no_remember,
    }
    return _each(call, op, verb="shutdown")


def reboot(call: command.Call) -> int:
    """Restart instances."""
    options = call.options
    op = {
        "OP_ID": "OP_INSTANCE_REBOOT",
        "reboot_type": options.type,
        "shutdown_timeout": options.shutdown_timeout,
    }
    return _each(call, op, verb="reboot")


def _each(call: command.Call, op: dict[str, object], *, verb: str) -> int:
    names = selection.instances(call, verb=verb)
    return submit.carry_out_many(call, [(name, op | {"instance_name": name}) for name in names])


def remove(call: command.Call) -> int:
    """Remove an instance."""
    name = call.arguments[0]
    options = call.options
    if not (options.force or options.dry_run):
        terminal.confirm(f"This removes the instance {name} with all the data on its disks. Continue?")
    op = {
        "OP_ID": "OP_INSTANCE_REMOVE",
        "instance_name": name,
        "ignore_failures": options.ignore_failures,
        "shutdown_timeout": options.shutdown_timeout,
    }
    return submit.carry_out(call, op)


def console(call: command.Call) -> int:
    """Connect to an instance's console; returns only when there is none, or it is only shown."""
    import shlex

    found = submit.ask(call, {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": call.arguments[0]})
    answer = found if isinstance(found, dict) else {}
    words = [str(word) for word in answer.get("command") or []]
    if not words:
        print(answer.get("message") or f"the instance {call.arguments[0]} has no console")
        return 0
    host = str(answer.get("host") or "")
    if host and not machine.is_here(host):
        words = ["ssh", "-t", host, "--", shlex.join(words)]
    if call.options.show_cmd:
        print(shlex.join(words))
        return 0
    if answer.get("message"):
        print(answer["message"], flush=True)
    call.client.close()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="--show-cmd prints the command"
        ) from None


def _own_hypervisor(text: str) -> syntax.Parameters:
    """Parse the parameters of an instance's hypervisor, which is the one it was made with for ever."""
    name, colon, _ = text.partition(":")
    if colon and "=" not in name:
        raise errors.InvalidError(
            f"-H {text}: the hypervisor of an instance is fixed",
            hint=f"leave {name}: out; to have another, make it anew",
        )
    return syntax.parameters(text)


START_PARAMETERS = (
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Hypervisor parameters for this start only",
        "PARAMS",
        dest="hypervisor",
        parse=syntax.parameters,
    ),
)
MODIFY_OPTIONS = (
    command.Option(
        ("--net",),
        "A change of a NIC, as in 0:modify,ip1=192.0.2.10 or -1:add,ip0=pool,network=net1 or 1:remove",
        "CHANGE",
        many=True,
        parse=nics.change,
    ),
    command.Option(
        ("--disk",),
        "A change of a disk, as in add:size=10g or 1:modify,mode=ro or 2:remove",
        "CHANGE",
        many=True,
        parse=disks.change,
    ),
    *disks.CONVERSION,
    disks.NO_WAIT,
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Hypervisor parameters; -name takes one back to its default",
        "PARAMS",
        dest="hypervisor",
        parse=_own_hypervisor,
    ),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.Option(("--no-conflicts-check",), "Allow addresses that belong to a network the NIC is not in"),
    command.Option(
        ("-f", "--force"),
        "Allow addresses that are reserved externally; with -t plain, take the primary node's copy as it is",
    ),
    command.Option(("--hotplug",), "Change NICs and disks of a running instance at once, where it can be: the default"),
    command.Option(("--hotplug-if-possible",), "The same"),
    command.Option(("--no-hotplug",), "Leave a running instance as it is until its next start"),
    command.Option(
        ("-m", "--runtime-memory"), "Memory that the running guest gets now, as in 512m", "SIZE", parse=syntax.size
    ),
    command.Option(("--offline",), "Put it aside, when it is down: it is not started, by nobody"),
    command.Option(("--online",), "Take it back from there"),
    creation.IGNORE_POLICY,
    *command.JOB,
)
MODIFY_TEXT = """
    Another second address for the first NIC, a new NIC with two, and the second one away:
      gnt-instance modify --net 0:modify,ip1=192.0.2.10 web1
      gnt-instance modify --net -1:add,ip0=pool,ip1=192.0.2.4,network=net1 web1
      gnt-instance modify --net 1:modify,ip1=none web1
    A new disk, the second one read-only, and the last one away with all that is on it:
      gnt-instance modify --disk add:size=10g web1
      gnt-instance modify --disk 1:modify,mode=ro web1
      gnt-instance modify --disk remove web1
    Its disks mirrored to another node, once it is stopped, and on one node again:
      gnt-instance modify -t drbd -n node2 web1
      gnt-instance modify -t plain web1
"""
NO_REMEMBER = command.Option(("--no-remember",), "Leave what is wanted of the instance as it was")

COMMANDS = (
    command.Command(
        "add", add, "Create an instance", (command.Argument("INSTANCE"),), creation.OPTIONS, text=creation.TEXT
    ),
    *query.commands(LISTING, "instances", arguments=selection.ARGUMENTS),
    command.Command(
        "info",
        info,
        "Show instances in full",
        selection.ARGUMENTS,
        (
            command.Option(("-s", "--static"), "Do not ask the nodes"),
            command.Option(("--all",), "All instances"),
            *command.PRIORITY,
        ),
        aliases=("show",),
    ),
    command.Command("modify", modify, "Change NICs, disks and parameters", ONE, MODIFY_OPTIONS, text=MODIFY_TEXT),
    command.Command(
        "startup",
        start,
        "Start instances",
        selection.ARGUMENTS,
        (
            command.FORCE,
            *selection.OPTIONS,
            *START_PARAMETERS,
            NO_REMEMBER,
            command.Option(("--paused",), "Start the guest paused"),
            *command.JOB,
        ),
        aliases=("start", "up"),
    ),
    command.Command(
        "shutdown",
        stop,
        "Shut instances down",
        selection.ARGUMENTS,
        (
            command.Option(("-f", "--force"), "Cut the power at once, also when the node is offline"),
            *selection.OPTIONS,
            command.Option(
                ("--timeout",), "Seconds until the power is cut", "SECONDS", parse=syntax.number, default=120
            ),
            NO_REMEMBER,
            *command.JOB,
        ),
        aliases=("stop", "down"),
    ),
    command.Command(
        "reboot",
        reboot,
        "Restart instances",
        selection.ARGUMENTS,
        (
            *selection.OPTIONS,
            command.Option(
                ("-t", "--type"),
                "soft in the guest, hard by the hypervisor, full with disks and configuration",
                "TYPE",
                choices=("hard", "soft", "full"),
                default="hard",
            ),
            command.SHUTDOWN_TIMEOUT,
            *command.JOB,
        ),
    ),
    command.Command(
        "remove",
        remove,
        "Remove an instance and its disks",
        ONE,
        (
            command.FORCE,
            command.SHUTDOWN_TIMEOUT,
            command.Option(("--ignore-failures",), "Remove it even when its disks cannot be removed"),
            *command.JOB,
        ),
    ),
    command.Command(
        "console",
        console,
        "Connect to an instance's console",
        ONE,
        (command.Option(("--show-cmd",), "Print the command instead of running it"), *command.PRIORITY),
    ),
    *reinstall.COMMANDS,
    *moves.INSTANCE,
    *disks.COMMANDS,
    *tags.commands("instance", *ONE),
)
