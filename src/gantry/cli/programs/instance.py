"""``gnt-instance``: virtual machines."""

import os
from collections.abc import Sequence

from gantry.cli import (
    command,
    description,
    failures,
    machine,
    nics,
    output,
    query,
    selection,
    syntax,
    tags,
    terminal,
    waiting,
)

ABOUT = "Creates, runs and shows virtual machines."

LISTING = query.Listing("instance", ("name", "hypervisor", "os", "pnode", "status", "oper_ram"))
ONE = (command.Argument("INSTANCE", completes="instance"),)


def add(call: command.Call) -> int:
    """Create an instance."""
    options = call.options
    hypervisor, hvparams = options.hypervisor or ("", {})
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": call.arguments[0],
        "mode": "create",
        "disks": _disks(options.os_size, options.disk),
        "nics": _nics(options.net, options.no_nics),
        "hvparams": hvparams,
        "beparams": options.backend_parameters or {},
        "osparams": options.os_parameters or {},
        "start": not (options.no_start or options.no_install),
        "force": options.force,
        "force_variant": options.force_variant,
        "conflicts_check": not options.no_conflicts_check,
        "tags": options.tags,
    }
    given = {
        "disk_template": options.disk_template,
        "os_type": options.os_type,
        "pnode": options.node,
        "group_name": options.node_group,
        "hypervisor": hypervisor,
        "no_install": options.no_install,
    }
    return waiting.carry_out(call, op | {key: value for key, value in given.items() if value})


def _disks(size: int | None, texts: Sequence[str]) -> list[syntax.Structure]:
    if size is not None and texts:
        raise failures.InvalidError("-s and --disk exclude each other", hint="-s 10g is short for --disk 0:size=10g")
    return [{"size": size}] if size is not None else syntax.disks(texts)


def _nics(texts: Sequence[str], none: bool) -> list[syntax.Structure]:
    if none and texts:
        raise failures.InvalidError("--no-nics and --net exclude each other")
    return [] if none else syntax.nics(texts) if texts else [{}]


def modify(call: command.Call) -> int:
    """Change an instance and say what was changed."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_INSTANCE_SET_PARAMS",
        "instance_name": name,
        "nics": options.net,
        "hvparams": options.hypervisor or {},
        "beparams": options.backend_parameters or {},
        "osparams": options.os_parameters or {},
        "force": options.force,
        "hotplug": not options.no_hotplug,
        "conflicts_check": not options.no_conflicts_check,
    }
    if not any(op[key] for key in ("nics", "hvparams", "beparams", "osparams")):
        raise failures.InvalidError("Please give at least one of the parameters.", hint="--net, -H, -B or -O")
    if options.no_hotplug and (options.hotplug or options.hotplug_if_possible):
        raise failures.InvalidError("--hotplug and --no-hotplug exclude each other")

    def report(result: object) -> None:
        print(f"Modified instance {name}")
        for parameter, value in result if isinstance(result, list) else []:
            print(f" - {parameter:<5} -> {_shown(value)}")

    return waiting.carry_out(call, op, report=report)


def _shown(value: object) -> str:
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"


def info(call: command.Call) -> int:
    """Show instances in full."""
    if bool(call.arguments) == bool(call.options.all):
        raise failures.InvalidError("name instances, or give --all alone")
    op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": call.arguments, "static": call.options.static}
    found = waiting.ask(call, op)
    print(output.document([description.instance(one) for one in _values(found)]))
    return 0


def _values(found: object) -> list[description.Record]:
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
    return waiting.carry_out_many(call, [(name, op | {"instance_name": name}) for name in names])


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
    return waiting.carry_out(call, op)


def console(call: command.Call) -> int:
    """Connect to an instance's console; returns only when there is none, or it is only shown."""
    import shlex

    found = waiting.ask(call, {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": call.arguments[0]})
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
        raise failures.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="--show-cmd prints the command"
        ) from None


ADD_OPTIONS = (
    command.Option(("-t", "--disk-template"), "Kind of the disks: file, diskless ...", "TEMPLATE"),
    command.Option(("-s", "--os-size"), "One disk of this size, as in 10g", "SIZE", parse=syntax.size),
    command.Option(("--disk",), "A disk, as in 0:size=10g,mode=rw,name=data", "N:size=SIZE,...", many=True),
    command.Option(
        ("--net",),
        "A NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; an address is one, pool, or the name of a pool; "
        "also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults",
        "N:key=value,...",
        many=True,
    ),
    command.Option(("--no-nics",), "No NIC at all"),
    command.Option(("-o", "--os-type"), "Operating system, as in busybox+default", "OS", completes="os"),
    command.Option(("-O", "--os-parameters"), "Parameters of the operating system", "PARAMS", parse=syntax.parameters),
    command.NODE,
    command.GROUP,
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz",
        "[HV:]PARAMS",
        dest="hypervisor",
        parse=syntax.hypervisor,
    ),
    command.Option(("--no-start",), "Do not start it"),
    command.Option(("--no-install",), "Do not run the operating system's scripts, do not start it"),
    command.Option(("--force-variant",), "Take a variant that the operating system does not list"),
    command.Option(("--no-conflicts-check",), "Allow addresses that belong to a network the NIC is not in"),
    command.TAGS,
    command.Option(("-f", "--force"), "Allow addresses that are reserved externally"),
    *command.JOB,
)
ADD_TEXT = """
    An instance with one disk and an address from each pool of two:
      gnt-instance add -t file -s 1g -o busybox -n node1 --net 0:network=net1,ip0=pool,ip1=lan6 web1
"""
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
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Hypervisor parameters; -name takes one back to its default",
        "PARAMS",
        dest="hypervisor",
        parse=syntax.parameters,
    ),
    command.Option(("-O", "--os-parameters"), "Parameters of the operating system", "PARAMS", parse=syntax.parameters),
    command.Option(("--no-conflicts-check",), "Allow addresses that belong to a network the NIC is not in"),
    command.Option(("-f", "--force"), "Allow addresses that are reserved externally"),
    command.Option(("--hotplug",), "Change the NICs of a running instance at once, where it can be: the default"),
    command.Option(("--hotplug-if-possible",), "The same"),
    command.Option(("--no-hotplug",), "Leave a running instance as it is until its next start"),
    *command.JOB,
)
MODIFY_TEXT = """
    Another second address for the first NIC, a new NIC with two, and the second one away:
      gnt-instance modify --net 0:modify,ip1=192.0.2.10 web1
      gnt-instance modify --net -1:add,ip0=pool,ip1=192.0.2.4,network=net1 web1
      gnt-instance modify --net 1:modify,ip1=none web1
"""
NO_REMEMBER = command.Option(("--no-remember",), "Leave what is wanted of the instance as it was")

COMMANDS = (
    command.Command("add", add, "Create an instance", (command.Argument("INSTANCE"),), ADD_OPTIONS, text=ADD_TEXT),
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
    command.Command("modify", modify, "Change NICs and parameters", ONE, MODIFY_OPTIONS, text=MODIFY_TEXT),
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
    *tags.commands("instance", *ONE),
)
