"""The options that create an instance: of ``gnt-instance add`` and ``gnt-backup import``."""

from collections.abc import Sequence

from gantry.cli import errors
from gantry.cli.framework import command
from gantry.cli.grammar import devices, syntax


def opcode(call: command.Call) -> syntax.Structure:
    """Return OP_INSTANCE_CREATE with the options of ``add``; ``gnt-backup import`` has the same options."""
    options = call.options
    hypervisor, hvparams = options.hypervisor or ("", {})
    primary, _, secondary = (options.node or "").partition(":")
    placement: syntax.Structure = {"pnode": primary, "snode": secondary, "hypervisor": hypervisor, "hvparams": hvparams}
    return call.opcode(
        "OP_INSTANCE_CREATE",
        disks=_disks(options.os_size, options.disk),
        nics=_nics(options.net, options.no_nics),
        **{field: value for field, value in placement.items() if value},
        **({"start": False} if options.no_start or options.no_install else {}),
    )


def _disks(size: int | None, texts: Sequence[str]) -> list[syntax.Structure]:
    if size is not None and texts:
        raise errors.InvalidError("-s and --disk exclude each other", hint="-s 10g is short for --disk 0:size=10g")
    return [{"size": size}] if size is not None else devices.DISKS.devices(texts)


def _nics(texts: Sequence[str], none: bool) -> list[syntax.Structure]:
    if none and texts:
        raise errors.InvalidError("--no-nics and --net exclude each other")
    return [] if none else devices.NICS.devices(texts) if texts else [{}]


CREATE = "OP_INSTANCE_CREATE"
ARGUMENTS = (command.Argument("INSTANCE", field="instance_name"),)
IGNORE_POLICY = command.field_option(CREATE, "ignore_ipolicy", "--ignore-ipolicy")
UNCHECKED = (
    command.accepted("--no-ip-check", because="addresses are never looked up"),
    command.accepted("--no-name-check", because="names are never looked up"),
)
FILE_DRIVER = command.accepted(
    "--file-driver", metavar="DRIVER", idle=("loop",), because="the hypervisor decides how it opens a file"
)
COMMUNICATION = command.accepted(
    "-c",
    "--communication",
    metavar="YES|NO",
    idle=("no",),
    because="there is no network between an instance and its node",
)
OPTIONS = (
    command.field_option(
        CREATE,
        "disk_template",
        "-t",
        "--disk-template",
        help="Set the disk template: file, sharedfile, plain, drbd, ext, diskless",
        metavar="TEMPLATE",
        completes="template",
    ),
    command.Option(("-s", "--os-size"), "Create one disk of this size, as in 10g", "SIZE", parse=syntax.size),
    command.Option(
        ("--disk",),
        "Create a disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, "
        "spindles",
        "N:size=SIZE,...",
        repeatable=True,
        field="disks",
    ),
    command.Option(
        ("--net",),
        "Create a NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; ip takes an address, pool, or the name of a pool; "
        "also mac, mode, link, vlan, bridge, name; or a port of the Neutron API, as in 0:port=PORT. Without --net "
        "there is one NIC with the defaults",
        "N:key=value,...",
        repeatable=True,
        field="nics",
    ),
    command.Option(("--no-nics",), "Create no NIC"),
    command.field_option(
        CREATE,
        "os_type",
        "-o",
        "--os-type",
        help="Install this operating system, as in busybox+default",
        metavar="OS",
        completes="os",
    ),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.OS_SECRET,
    command.Option(
        ("-n", "--node"),
        "Create the instance on this node; mirrored disks take a secondary node too",
        metavar="NODE[:SECONDARY]",
        completes="node",
    ),
    command.GROUP,
    command.ALLOCATOR,
    command.BACKEND,
    command.Option(
        command.HYPERVISOR_NAMES,
        "Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz",
        "[HV:]PARAMS",
        completes="by-hypervisor-parameter",
        dest="hypervisor",
        parse=syntax.hypervisor,
    ),
    command.Option(("--no-start",), "Do not start the instance"),
    command.field_option(
        CREATE,
        "wait_for_sync",
        "--no-wait-for-sync",
        help="Do not wait until mirrored disks are in sync",
        negated=True,
    ),
    command.field_option(
        CREATE,
        "no_install",
        "--no-install",
        help="Do not run the operating system's scripts, and do not start the instance",
    ),
    command.field_option(CREATE, "force_variant", "--force-variant"),
    command.field_option(
        CREATE,
        "conflicts_check",
        "--no-conflicts-check",
        help="Allow addresses that belong to a network the NIC is not in",
        negated=True,
    ),
    *UNCHECKED,
    command.accepted("--opportunistic-locking", because="a job waits for all its locks at once"),
    FILE_DRIVER,
    COMMUNICATION,
    *(
        command.accepted(f"--helper-{phase}-timeout", metavar="SECONDS", because="no helper machine writes the disks")
        for phase in ("startup", "shutdown")
    ),
    IGNORE_POLICY,
    command.TAGS,
    command.field_option(CREATE, "force", "-f", "--force"),
    *command.JOB,
)
TEXT = """
    An instance with one disk and an address from each pool of two:
      gnt-instance add -t file -s 1g -o busybox -n node1 --net 0:network=net1,ip0=pool,ip1=lan6 web1
    Another with two mirrored disks:
      gnt-instance add -t drbd --disk 0:size=10g --disk 1:size=auto,vg=fast -o busybox -n node1:node2 web2
"""
