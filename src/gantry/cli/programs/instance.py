"""``gnt-instance``: virtual machines."""

import os
import sys

from gantry.cli import client, errors, machine
from gantry.cli.commands import creation, disks, moves, reinstall, selection, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import nics, syntax
from gantry.cli.output import answers, documents, object_info, terminal

ABOUT = "Creates, runs and shows virtual machines."

ADDRESS_NOTE = (
    "Note: the guest configures the addresses of a changed NIC itself, by DHCP (see gnt-network dhcp) or by hand; "
    "gnt-instance info shows them"
)
LEAVING = {
    "socat": "Enter shows a prompt; Ctrl-] leaves the console",
    "xl": "Enter shows a prompt; Ctrl-] leaves the console",
    "chroot": "exit leaves the console",
}
"""How to leave a console, by its kind."""
LISTING = query.Listing("instance", ("name", "hypervisor", "os", "pnode", "status", "oper_ram"))
INSTANCE = (command.Argument("INSTANCE", completes="instance", field="instance_name"),)


def add(call: command.Call) -> int:
    """Create an instance."""
    return submit.carry_out(call, creation.opcode(call))


def modify(call: command.Call) -> int:
    """Change an instance and print the changes."""
    name, options = call.arguments[0], call.options
    op = call.opcode("OP_INSTANCE_SET_PARAMS")
    disks.check_conversion(op)
    if options.offline and options.online:
        raise errors.InvalidError("--offline and --online exclude each other")
    if not op.keys() & CHANGES:
        raise errors.InvalidError("Please give at least one of the parameters.", hint="--net, --disk, -t, -H, -B or -O")
    if options.no_hotplug and (options.hotplug or options.hotplug_if_possible):
        raise errors.InvalidError("--hotplug and --no-hotplug exclude each other")

    def report(result: object) -> None:
        print(f"Modified instance {name}")
        for parameter, value in result if isinstance(result, list) else []:
            print(f" - {parameter:<5} -> {_value_text(value)}")
        if any(map(_sets_address, client.expect(op.get("nics", []), list))):
            print(ADDRESS_NOTE, file=sys.stderr)

    return submit.carry_out(call, op, report=report)


def _sets_address(change: object) -> bool:
    """Return whether a change of a NIC gives it addresses that the guest does not have yet."""
    match change:
        case ["add" | "modify", _, {"ip": ip}]:
            addresses = ip.values() if isinstance(ip, dict) else ip if isinstance(ip, list) else [ip]
            return any(address and address != "none" for address in addresses)
    return False


def _value_text(value: object) -> str:
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"


def info(call: command.Call) -> int:
    """Show instances in full."""
    if bool(call.arguments) == bool(call.options.all):
        raise errors.InvalidError("give the names of instances, or --all alone")
    op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": call.arguments, "static": call.options.static}
    answer = submit.query(call, op)
    print(documents.document([object_info.instance(record) for record in _values(answer)]))
    return 0


def _values(answer: object) -> list[answers.Record]:
    return list(answer.values()) if isinstance(answer, dict) else []


def start(call: command.Call) -> int:
    """Start instances."""
    return _each(call, "OP_INSTANCE_STARTUP", verb="startup")


def stop(call: command.Call) -> int:
    """Shut instances down."""
    return _each(call, "OP_INSTANCE_SHUTDOWN", verb="shutdown")


def reboot(call: command.Call) -> int:
    """Restart instances."""
    return _each(call, "OP_INSTANCE_REBOOT", verb="reboot")


def _each(call: command.Call, opcode: str, *, verb: str) -> int:
    names = selection.instances(call, verb=verb)
    return submit.carry_out_many(call, [(name, call.opcode(opcode, instance_name=name)) for name in names])


def remove(call: command.Call) -> int:
    """Remove an instance."""
    name = call.arguments[0]
    options = call.options
    if not (options.force or options.dry_run):
        terminal.confirm(f"This removes the instance {name} with all the data on its disks. Continue?")
    return submit.carry_out(call, call.opcode("OP_INSTANCE_REMOVE"))


def console(call: command.Call) -> int:
    """Replace this process by the command of an instance's console; returns if there is none, or with --show-cmd."""
    import shlex

    result = submit.query(call, {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": call.arguments[0]})
    answer = result if isinstance(result, dict) else {}
    words = [str(word) for word in answer.get("command") or []]
    if not words:
        raise errors.CommandError(str(answer.get("message") or f"the instance {call.arguments[0]} has no console"))
    host = str(answer.get("host") or "")
    if host and not machine.is_here(host):
        words = ["ssh", "-t", host, "--", shlex.join(words)]
    if call.options.show_cmd:
        print(shlex.join(words))
        return 0
    if answer.get("message"):
        print(answer["message"], flush=True)
    elif how := LEAVING.get(str(answer.get("kind"))):
        print(how, file=sys.stderr, flush=True)
    call.client.close()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="--show-cmd prints the command"
        ) from None


def _own_hypervisor(text: str) -> syntax.Parameters:
    """Parse the parameters of an instance's hypervisor; raises InvalidError for a hypervisor, which cannot change."""
    name, colon, _ = text.partition(":")
    if colon and "=" not in name:
        raise errors.InvalidError(
            f"-H {text}: the hypervisor of an instance cannot be changed",
            hint=f"omit {name}: to set parameters; for another hypervisor, remove and recreate the instance",
        )
    return syntax.parameters(text)


CHANGES = {
    *(
        "nics",
        "disks",
        "hvparams",
        "beparams",
        "osparams",
        "osparams_private",
        "runtime_mem",
        "disk_template",
        "offline",
    ),
}
"""Fields of OP_INSTANCE_SET_PARAMS of which at least one must be set."""

START = "OP_INSTANCE_STARTUP"
STOP = "OP_INSTANCE_SHUTDOWN"
MODIFY = "OP_INSTANCE_SET_PARAMS"
REMOVE = "OP_INSTANCE_REMOVE"
START_OPTIONS = (
    command.field_option(START, "force", "-f", "--force"),
    *selection.OPTIONS,
    command.BACKEND,
    command.field_option(
        START,
        "hvparams",
        *command.HYPERVISOR_NAMES,
        help="Set hypervisor parameters for this start only",
        metavar="PARAMS",
        completes="hypervisor-parameter",
        dest="hypervisor",
        parse=syntax.parameters,
    ),
    command.field_option(START, "no_remember", "--no-remember"),
    command.field_option(START, "startup_paused", "--paused"),
    command.accepted("--ignore-offline", because="an instance on an offline node is never started"),
    *command.JOB,
)
STOP_OPTIONS = (
    command.field_option(STOP, "force", "-f", "--force"),
    *selection.OPTIONS,
    command.field_option(STOP, "timeout", "--timeout", metavar="SECONDS"),
    command.field_option(STOP, "no_remember", "--no-remember"),
    command.accepted("--ignore-offline", because="-f stops an instance on an offline node"),
    *command.JOB,
)
MODIFY_OPTIONS = (
    command.field_option(
        MODIFY,
        "nics",
        "--net",
        help="Change a NIC, as in 0:modify,ip1=192.0.2.10 or -1:add,ip0=pool,network=net1 or 1:remove",
        metavar="CHANGE",
        repeatable=True,
        parse=nics.change,
    ),
    command.field_option(
        MODIFY,
        "disks",
        "--disk",
        help="Change a disk, as in add:size=10g or 1:modify,mode=ro or 2:remove",
        metavar="CHANGE",
        repeatable=True,
        parse=disks.change,
    ),
    *disks.CONVERSION,
    disks.NO_WAIT,
    command.BACKEND,
    command.field_option(
        MODIFY,
        "hvparams",
        *command.HYPERVISOR_NAMES,
        help="Set hypervisor parameters; -name resets a parameter to its default",
        metavar="PARAMS",
        completes="hypervisor-parameter",
        dest="hypervisor",
        parse=_own_hypervisor,
    ),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.field_option(
        MODIFY,
        "conflicts_check",
        "--no-conflicts-check",
        help="Allow addresses that belong to a network the NIC is not in",
        negated=True,
    ),
    command.field_option(MODIFY, "force", "-f", "--force"),
    command.Option(("--hotplug",), "Change NICs and disks of a running instance at once, where possible: the default"),
    command.Option(("--hotplug-if-possible",), "Do the same as --hotplug"),
    command.field_option(
        MODIFY,
        "hotplug",
        "--no-hotplug",
        help="Leave a running instance unchanged until its next start",
        negated=True,
    ),
    command.field_option(
        MODIFY,
        "runtime_mem",
        "-m",
        "--runtime-memory",
        help="Change the memory of the running guest, as in 512m",
        metavar="SIZE",
        parse=syntax.size,
    ),
    command.field_option(MODIFY, "offline", "--offline", help="Mark a stopped instance offline: nothing will start it"),
    command.field_option(MODIFY, "offline", "--online", help="Mark an offline instance stopped again", negated=True),
    creation.IGNORE_POLICY,
    creation.FILE_DRIVER,
    creation.COMMUNICATION,
    command.accepted("--force-variant", because="the operating system stays as it is"),
    *command.JOB,
)
MODIFY_TEXT = """
    Change the second address of the first NIC, add a NIC with two addresses, remove its second address:
      gnt-instance modify --net 0:modify,ip1=192.0.2.10 web1
      gnt-instance modify --net -1:add,ip0=pool,ip1=192.0.2.4,network=net1 web1
      gnt-instance modify --net 1:modify,ip1=none web1
    Add a disk, make the second disk read-only, remove the last disk with its data:
      gnt-instance modify --disk add:size=10g web1
      gnt-instance modify --disk 1:modify,mode=ro web1
      gnt-instance modify --disk remove web1
    Mirror the disks of a stopped instance to another node, and convert them back to plain:
      gnt-instance modify -t drbd -n node2 web1
      gnt-instance modify -t plain web1
"""
COMMANDS = (
    command.Command("add", add, "Create an instance", creation.ARGUMENTS, creation.OPTIONS, text=creation.TEXT),
    *query.commands(LISTING, "instances", arguments=selection.ARGUMENTS),
    command.Command(
        "info",
        info,
        "Show instances in full",
        selection.ARGUMENTS,
        (
            command.Option(("-s", "--static"), "Do not ask the nodes"),
            command.Option(("--all",), "Show all instances"),
            command.ROMAN,
            *command.PRIORITY,
        ),
        aliases=("show",),
    ),
    command.Command("modify", modify, "Change NICs, disks and parameters", INSTANCE, MODIFY_OPTIONS, text=MODIFY_TEXT),
    command.Command(
        "startup",
        start,
        "Start instances",
        selection.ARGUMENTS,
        START_OPTIONS,
        aliases=("start", "up"),
    ),
    command.Command(
        "shutdown",
        stop,
        "Shut instances down",
        selection.ARGUMENTS,
        STOP_OPTIONS,
        aliases=("stop", "down"),
    ),
    command.Command(
        "reboot",
        reboot,
        "Restart instances",
        selection.ARGUMENTS,
        (
            *selection.OPTIONS,
            command.field_option("OP_INSTANCE_REBOOT", "reboot_type", "-t", "--type", metavar="TYPE"),
            command.SHUTDOWN_TIMEOUT,
            command.field_option("OP_INSTANCE_REBOOT", "ignore_secondaries", "--ignore-secondaries"),
            *command.JOB,
        ),
    ),
    command.Command(
        "remove",
        remove,
        "Remove an instance and its disks",
        INSTANCE,
        (
            command.FORCE,
            command.SHUTDOWN_TIMEOUT,
            command.field_option(REMOVE, "ignore_failures", "--ignore-failures"),
            *command.JOB,
        ),
    ),
    command.Command(
        "console",
        console,
        "Connect to an instance's console",
        INSTANCE,
        (command.Option(("--show-cmd",), "Print the command instead of running it"), *command.PRIORITY),
    ),
    *reinstall.COMMANDS,
    *moves.INSTANCE_COMMANDS,
    *disks.COMMANDS,
    *tags.commands("instance", *INSTANCE),
)
