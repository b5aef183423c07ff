"""The allow-lists of hypervisor parameters that would let a user of the cluster become root on its nodes.

The cluster stores the lists that differ from the built-in ones. Only root on the master changes them, and whatever else
would make its user root (``needs_root``). The master compares what is set; a node compares what it uses, with symbolic
links resolved (``node.hypervisors.allowed``). The built-in default of a parameter is always allowed.

See explanation/security.md#who-may-become-root.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gantry import errors, security
from gantry.model import base, cluster, instance, opcodes, parameters

Form = security.Form


@dataclass(frozen=True)
class AllowList:
    """A list: its built-in entries, the parameters whose values it must contain, and the form of the values."""

    entries: tuple[str, ...]
    parameters: tuple[str, ...]
    form: Form = Form.PATH


IMAGES = ("cdrom2_image_path", "cdrom_image_path", "firmware_path", "floppy_image_path", "initrd_path", "kernel_path")
SECRETS = ("spice_password_file", "vnc_password_file", "vnc_x509_path")

LISTS: dict[str, AllowList] = {
    "bootloader_args": AllowList((), ("bootloader_args",), Form.OPTIONS),
    "bootloader_path": AllowList(("/usr/lib/xen*/bin/pygrub", "/usr/bin/pygrub"), ("bootloader_path",)),
    "device_model": AllowList(("/usr/lib/xen*/bin/qemu-*", "/usr/bin/qemu-system-*"), ("device_model",)),
    "images": AllowList(
        (
            "/boot",
            "/initrd.img",
            "/srv/images",
            "/srv/iso",
            "/usr/lib/xen*/boot",
            "/usr/share/AAVMF",
            "/usr/share/OVMF",
            "/usr/share/edk2",
            "/usr/share/qemu",
            "/var/lib/libvirt/images",
            "/vmlinuz",
        ),
        IMAGES,
    ),
    "kvm_extra": AllowList((), ("kvm_extra",), Form.OPTIONS),
    "kvm_path": AllowList(
        ("/usr/bin/kvm", "/usr/bin/qemu-kvm", "/usr/bin/qemu-system-*", "/usr/libexec/qemu-kvm"), ("kvm_path",)
    ),
    "mem_path": AllowList(("/dev/hugepages*", "/hugepages", "/mnt/huge*"), ("mem_path",)),
    "pci_pass": AllowList((), ("pci_pass",), Form.SEMICOLONS),
    "secrets": AllowList(("/etc/ganeti", "/etc/gantry"), SECRETS),
    "sockets": AllowList(("/run/gantry", "/run/vnc"), ("vnc_bind_address",), Form.SOCKET),
    "usb_devices": AllowList(("usb-kbd", "usb-mouse", "usb-tablet"), ("usb_devices",), Form.SPACED),
    "vif_script": AllowList(("/etc/xen/scripts",), ("vif_script",)),
}

OF_PARAMETER = {parameter: name for name, each in LISTS.items() for parameter in each.parameters}

ROOT_HYPERVISORS = ("chroot",)
"""Hypervisors whose guests can leave them: who may install a guest is root on its node."""

PORT_PARAMETER = "migration_port"
"""QEMU listens there as root, so a user could occupy the port of a service of the node while the service restarts."""

ADDITIONS = (opcodes.NodeAdd, opcodes.NodeInvite)
"""The added machine may become a master candidate, which gets the authority's key and so commands every node."""

EMPTY = ""
"""The only entry of a stored list without entries: a list that is not stored is the built-in one."""


def entries(the_cluster: cluster.Cluster, name: str) -> tuple[str, ...]:
    """Return the entries of a list."""
    return tuple(entry for entry in the_cluster.allowed.get(name, LISTS[name].entries) if entry != EMPTY)


def applied(the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams) -> dict[str, tuple[str, ...]]:
    """Return the stored lists after the changes of an opcode; InvalidError for an unknown list or a wrong entry.

    Adding the entry ``default`` resets a list.
    """
    lists = dict(the_cluster.allowed)
    for action, name, entry in op.allowed or ():
        if name not in LISTS:
            raise parameters.unknown("allow-list", [name], LISTS)
        if action == "add" and entry == parameters.RESET:
            lists.pop(name, None)
            continue
        _check_entry(name, entry)
        current = set(lists.get(name, LISTS[name].entries)) - {EMPTY}
        changed = current | {entry} if action == "add" else current - {entry}
        lists[name] = tuple(sorted(changed)) or (EMPTY,)
    return {name: value for name, value in lists.items() if set(value) != {*LISTS[name].entries}}


def _check_entry(name: str, entry: str) -> None:
    of_paths = LISTS[name].form in (Form.PATH, Form.SOCKET)
    if not entry.isprintable() or (of_paths and (not entry.startswith("/") or ".." in entry.split("/"))):
        raise errors.InvalidError(
            f"{entry!r} cannot be an entry of the allow-list {name}",
            hint="write an absolute path without .." if of_paths else "",
        )


def outside(the_cluster: cluster.Cluster, hypervisor: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each parameter whose value is in no allow-list, with a sentence about it."""
    known = parameters.HYPERVISORS[hypervisor]
    for parameter, value in values.items():
        name = OF_PARAMETER.get(parameter)
        if name is None or parameter not in known or value in ("", known[parameter].default, parameters.RESET):
            continue
        if not security.permits(entries(the_cluster, name), str(value), LISTS[name].form):
            contents = ", ".join(entries(the_cluster, name)) or "which is empty"
            yield parameter, f"parameter {parameter}: {value} is not in the allow-list {name} ({contents})"


def hint(name: str, value: object) -> str:
    """Return what root does so that a list contains a value."""
    return f"root can allow it on the master: gnt-cluster modify --allow '{name}={value}'"


def check(the_cluster: cluster.Cluster, hypervisor: str, values: Mapping[str, object]) -> None:
    """Raise ForbiddenError for the first value that is in no allow-list."""
    for parameter, sentence in outside(the_cluster, hypervisor, values):
        raise errors.ForbiddenError(sentence, hint=hint(OF_PARAMETER[parameter], values[parameter]))


def check_change(the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams) -> None:
    """Check the parameters that an opcode sets for the cluster and for operating systems, by the lists of ``owner``."""
    for hypervisor, values in (op.hvparams or {}).items():
        check(the_cluster, hypervisor, values)
    for by_hypervisor in (op.os_hvp or {}).values():
        for hypervisor, values in by_hypervisor.items():
            check(the_cluster, hypervisor, values)


def own_values(the_cluster: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return the filled parameters of an instance that allow-lists are about and that are not built-in defaults."""
    known = parameters.HYPERVISORS[vm.hypervisor]
    filled = parameters.fill_hypervisor(the_cluster, vm)
    return {
        name: value for name, value in filled.items() if name in OF_PARAMETER and value not in ("", known[name].default)
    }


def needs_root(op: opcodes.AnyOpcode) -> str:
    """Return what an opcode changes that only root on the master may change; empty if it changes nothing of that."""
    if isinstance(op, ADDITIONS):
        return "which machines become nodes"
    if not isinstance(op, opcodes.ClusterSetParams):
        return ""
    if op.allowed:
        return "the allow-lists"
    if op.ipam_database:
        return "the database of addresses"
    if any(PORT_PARAMETER in values for values in (op.hvparams or {}).values()):
        return f"{PORT_PARAMETER}, the ports that nodes open for migrations"
    added = {*ROOT_HYPERVISORS} & {*(op.enabled_hypervisors or ())}
    return f"whether the hypervisor {min(added)} is enabled" if added else ""


def root_command(op: opcodes.AnyOpcode) -> str:
    """Return the command by which root submits an opcode that ``needs_root``."""
    return "gnt-node add" if isinstance(op, ADDITIONS) else "gnt-cluster modify"
