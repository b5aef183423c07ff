"""Checks an instance's hypervisor parameters against this node, before anything changes.

``model`` checks names and types on the master. This module checks what depends on the node (files, users, devices,
machine types of its QEMU) and combinations of values. Each error names the parameter and what is missing.
"""

import difflib
import shlex
from collections.abc import Mapping

from gantry import errors
from gantry.node.hypervisors.kvm import affinity
from gantry.rpc import calls
from gantry.runtime import interface

FILES = (
    "kvm_path",
    "kernel_path",
    "initrd_path",
    "cdrom_image_path",
    "cdrom2_image_path",
    "floppy_image_path",
    "mem_path",
    "vnc_password_file",
    "spice_password_file",
    "vnc_x509_path",
)
SLASHES = frozenset("/\\")
"""QEMU opens a keymap with one of these as a file of the node. The master refuses new values, not stored ones."""
USERS = "/etc/passwd"
VHOST = "/dev/vhost-net"
UEFI_CODE, UEFI_VARIABLES = "_CODE", "_VARS"

Parameters = Mapping[str, calls.Value]


def variables_path(code: str) -> str:
    """Return the path of the initial variables of a UEFI firmware, in the same folder as its code."""
    folder, _, name = code.rpartition("/")
    return f"{folder}/{name.replace(UEFI_CODE, UEFI_VARIABLES)}"


class Requirements:
    """The requirements of guests' parameters on this node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._kinds: dict[str, dict[str, str]] = {}

    async def check(self, hvparams: Parameters) -> None:
        """Raise InvalidError or EnvironmentFaultError for a parameter that cannot be used on this node."""
        for parameter in FILES:
            path = str(hvparams.get(parameter, ""))
            if path and not self._runtime.disk.exists(path):
                raise errors.InvalidError(f"{parameter}: there is no file {path} on node {self._runtime.host}")
        _check_combinations(hvparams)
        self._check_firmware(hvparams)
        self._check_user(hvparams)
        if hvparams.get("vhost_net") and not self._runtime.disk.exists(VHOST):
            raise errors.EnvironmentFaultError(
                f"vhost_net: node {self._runtime.host} has no {VHOST}", hint="load the kernel module vhost_net there"
            )
        await self.kind(hvparams)

    def _check_firmware(self, hvparams: Parameters) -> None:
        if hvparams.get("firmware") != "uefi":
            return
        code = str(hvparams.get("firmware_path", ""))
        for path in (code, variables_path(code)):
            if not self._runtime.disk.exists(path):
                raise errors.EnvironmentFaultError(
                    f"firmware=uefi: node {self._runtime.host} has no file {path}",
                    hint="install the package ovmf there, or set firmware_path",
                )

    def _check_user(self, hvparams: Parameters) -> None:
        if hvparams.get("security_model") != "user":
            return
        user = str(hvparams.get("security_domain", ""))
        users = self._runtime.disk.read(USERS).decode(errors="replace").splitlines()
        if not user or user not in {line.partition(":")[0] for line in users}:
            raise errors.EnvironmentFaultError(
                f"security_domain: node {self._runtime.host} has no user {user or 'without a name'}",
                hint="create the user there; with security_model=user QEMU runs as this user",
            )

    async def kind(self, hvparams: Parameters) -> str:
        """Return the versioned machine type; InvalidError for a type that this node's QEMU does not support."""
        machine_type = str(hvparams.get("machine_version") or "pc")
        program = str(hvparams["kvm_path"])
        if program not in self._kinds:
            self._kinds[program] = await self._machine_types(program)
        known = self._kinds[program]
        if known and machine_type not in known:
            close = difflib.get_close_matches(machine_type, known, n=1)
            raise errors.InvalidError(
                f"machine_version: QEMU of node {self._runtime.host} does not support machine type {machine_type}",
                hint=f"did you mean {close[0]}?" if close else f"see {program} -machine help for its types",
            )
        return known.get(machine_type, machine_type)

    async def _machine_types(self, program: str) -> dict[str, str]:
        """Return the versioned machine type of each machine type that a QEMU supports."""
        process = await self._runtime.processes.run([program, "-machine", "help"])
        types: dict[str, str] = {}
        for line in process.stdout.decode(errors="replace").splitlines()[1:]:
            name, _, description = line.partition(" ")
            types[name] = description.partition("(alias of ")[2].partition(")")[0] or name
        return types


def _check_combinations(hvparams: Parameters) -> None:
    """Check combinations of values that are invalid on any node."""
    if hvparams.get("initrd_path") and not hvparams.get("kernel_path"):
        raise errors.InvalidError("initrd_path requires kernel_path")
    if hvparams.get("disk_aio") == "native" and hvparams.get("disk_cache") != "none":
        raise errors.InvalidError("disk_aio=native requires disk_cache=none")
    if hvparams.get("security_model") == "pool":
        raise errors.InvalidError(
            "security_model=pool requires a pool of users, and the cluster has none", hint="use security_model=user"
        )
    for parameter in ("vnc_tls", "spice_use_tls"):
        if hvparams.get(parameter) and not hvparams.get("vnc_x509_path"):
            raise errors.InvalidError(f"{parameter} requires vnc_x509_path")
    if hvparams.get("floppy_image_path") and "q35" in str(hvparams.get("machine_version", "")):
        raise errors.InvalidError("floppy_image_path: machine type q35 has no floppy drive")
    keymap = str(hvparams.get("keymap", ""))
    if not SLASHES.isdisjoint(keymap):
        raise errors.InvalidError(
            f"keymap: {keymap} is a path, not a keyboard", hint="use a name such as de, as in QEMU's folder keymaps"
        )
    affinity.parse(str(hvparams.get("cpu_mask") or affinity.ALL))
    try:
        shlex.split(str(hvparams.get("kvm_extra", "")))
    except ValueError as error:
        raise errors.InvalidError(f"kvm_extra: {error}") from None
