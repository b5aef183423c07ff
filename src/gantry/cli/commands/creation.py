"""What the options of ``gnt-instance add`` ask for; ``gnt-backup import`` has the same ones."""

from collections.abc import Sequence

from gantry.cli import errors
from gantry.cli.framework import command
from gantry.cli.grammar import devices, syntax


def opcode(call: command.Call) -> dict[str, object]:
    """Return the opcode that the options of ``add`` ask for; ``gnt-backup import`` has the same."""
    options = call.options
    hypervisor, hvparams = options.hypervisor or ("", {})
    primary, _, secondary = (options.node or "").partition(":")
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
        "ignore_ipolicy": options.ignore_ipolicy,
        "tags": options.tags,
    }
    given = {
        "disk_template": options.disk_template,
        "os_type": options.os_type,
        "pnode": primary,
        "group_name": options.node_group,
        "iallocator": options.iallocator,
        "snode": secondary,
        "hypervisor": hypervisor,
        "no_install": options.no_install,
        "osparams_private": options.os_parameters_private,
        "osparams_secret": options.os_parameters_secret,
    }
    op |= {"wait_for_sync": False} if options.no_wait_for_sync else {}
    return op | {key: value for key, value in given.items() if value}


def _disks(size: int | None, texts: Sequence[str]) -> list[syntax.Structure]:
    if size is not None and texts:
        raise errors.InvalidError("-s and --disk exclude each other", hint="-s 10g is short for --disk 0:size=10g")
    return [{"size": size}] if size is not None else devices.DISKS.devices(texts)


def _nics(texts: Sequence[str], none: bool) -> list[syntax.Structure]:
    if none and texts:
        raise errors.InvalidError("--no-nics and --net exclude each other")
    return [] if none else devices.NICS.devices(texts) if texts else [{}]


IGNORE_POLICY = command.of("OP_INSTANCE_CREATE", "ignore_ipolicy", "--ignore-ipolicy")
OPTIONS = (
    command.Option(
        ("-t", "--disk-template"), "Kind of the disks: file, sharedfile, plain, drbd, ext, diskless", "TEMPLATE"
    ),
    command.Option(("-s", "--os-size"), "One disk of this size, as in 10g", "SIZE", parse=syntax.size),
    command.Option(
        ("--disk",),
        "A disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, spindles",
        "N:size=SIZE,...",
        many=True,
    ),
    command.Option(
        ("--net",),
        "A NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; an address is one, pool, or the name of a pool; "
        "also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults",
        "N:key=value,...",
        many=True,
    ),
    command.Option(("--no-nics",), "No NIC at all"),
    command.Option(("-o", "--os-type"), "Operating system, as in busybox+default", "OS", completes="os"),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.OS_SECRET,
    command.Option(
        ("-n", "--node"), "Node, or both nodes of mirrored disks", metavar="NODE[:SECONDARY]", completes="node"
    ),
    command.GROUP,
    command.ALLOCATOR,
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz",
        "[HV:]PARAMS",
        dest="hypervisor",
        parse=syntax.hypervisor,
    ),
    command.Option(("--no-start",), "Do not start it"),
    command.Option(("--no-wait-for-sync",), "Do not wait until mirrored disks are the same on both nodes"),
    command.Option(("--no-install",), "Do not run the operating system's scripts, do not start it"),
    command.Option(("--force-variant",), "Take a variant that the operating system does not list"),
    command.Option(("--no-conflicts-check",), "Allow addresses that belong to a network the NIC is not in"),
    IGNORE_POLICY,
    command.TAGS,
    command.Option(("-f", "--force"), "Allow addresses that are reserved externally"),
    *command.JOB,
)
TEXT = """
    An instance with one disk and an address from each pool of two:
      gnt-instance add -t file -s 1g -o busybox -n node1 --net 0:network=net1,ip0=pool,ip1=lan6 web1
    Another with two mirrored disks:
      gnt-instance add -t drbd --disk 0:size=10g --disk 1:size=auto,vg=fast -o busybox -n node1:node2 web2
"""
