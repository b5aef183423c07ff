"""What an instance's parameters demand of this node, checked before anything changes.

``model`` checks names and types on the master. Here is what only the node can tell: files, users, devices, what its
QEMU knows; and values that cannot be had together. Each complaint names the parameter and what is missing.
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
USERS = "/etc/passwd"
VHOST = "/dev/vhost-net"
UEFI_CODE, UEFI_VARIABLES = "_CODE", "_VARS"

Parameters = Mapping[str, calls.Value]


def variables_path(code: str) -> str:
    """Return where the fresh variables of a UEFI firmware lie: beside it."""
    folder, _, name = code.rpartition("/")
    return f"{folder}/{name.replace(UEFI_CODE, UEFI_VARIABLES)}"


class Demands:
    """What this node can give its guests."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._kinds: dict[str, dict[str, str]] = {}

    async def check(self, hvparams: Parameters) -> None:
        """Raise InvalidError or EnvironmentFaultError for a parameter that cannot be honoured here."""
        for parameter in FILES:
            path = str(hvparams.get(parameter, ""))
            if path and not self._runtime.disk.exists(path):
                raise errors.InvalidError(f"{parameter}: there is no file {path} on node {self._runtime.host}")
        _check_together(hvparams)
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
                hint="make the user there; security_model=user runs QEMU as that one",
            )

    async def kind(self, hvparams: Parameters) -> str:
        """Return the machine type with its version; InvalidError for one that this QEMU does not know."""
        wanted = str(hvparams.get("machine_version") or "pc")
        program = str(hvparams["kvm_path"])
        if program not in self._kinds:
            self._kinds[program] = await self._ask(program)
        known = self._kinds[program]
        if known and wanted not in known:
            close = difflib.get_close_matches(wanted, known, n=1)
            raise errors.InvalidError(
                f"machine_version: QEMU of node {self._runtime.host} does not know {wanted}",
                hint=f"did you mean {close[0]}?" if close else f"{program} -machine help lists what it knows",
            )
        return known.get(wanted, wanted)

    async def _ask(self, program: str) -> dict[str, str]:
        """Return each machine type that a QEMU knows with what it stands for."""
        done = await self._runtime.processes.run([program, "-machine", "help"])
        known: dict[str, str] = {}
        for line in done.stdout.decode(errors="replace").splitlines()[1:]:
            name, _, rest = line.partition(" ")
            known[name] = rest.partition("(alias of ")[2].partition(")")[0] or name
        return known


def _check_together(hvparams: Parameters) -> None:
    """Check what needs nothing but the parameters."""
    if hvparams.get("initrd_path") and not hvparams.get("kernel_path"):
        raise errors.InvalidError("initrd_path needs a kernel_path to go with it")
    if hvparams.get("disk_aio") == "native" and hvparams.get("disk_cache") != "none":
        raise errors.InvalidError("disk_aio=native needs disk_cache=none to go with it")
    if hvparams.get("security_model") == "pool":
        raise errors.InvalidError(
            "security_model=pool needs a pool of users, and the cluster has none", hint="use security_model=user"
        )
    for parameter in ("vnc_tls", "spice_use_tls"):
        if hvparams.get(parameter) and not hvparams.get("vnc_x509_path"):
            raise errors.InvalidError(f"{parameter} needs a vnc_x509_path to go with it")
    if hvparams.get("floppy_image_path") and "q35" in str(hvparams.get("machine_version", "")):
        raise errors.InvalidError("floppy_image_path: a machine q35 has no floppy drive")
    affinity.parse(str(hvparams.get("cpu_mask") or affinity.ALL))
    try:
        shlex.split(str(hvparams.get("kvm_extra", "")))
    except ValueError as error:
        raise errors.InvalidError(f"kvm_extra: {error}") from None
