"""Checks the hypervisor parameters of Xen's guests against this node, before anything changes.

``model`` checks names and types on the master. This module checks what depends on the node (files, and whether Xen runs
here and supports such guests) and combinations of values.
"""

from collections.abc import Mapping

from gantry import errors
from gantry.node.hypervisors.kvm import affinity
from gantry.node.hypervisors.xen import domains, machine
from gantry.rpc import calls
from gantry.runtime import interface

Parameters = Mapping[str, calls.Value]
HYPERVISOR_TYPE = "/sys/hypervisor/type"
"""The kernel's file with the hypervisor under it; there is none on bare hardware."""
# The capability for each hypervisor in xl info, and the hint if it is missing.
CAPABILITIES = {
    machine.PARAVIRTUAL: ("pv", "use a Xen that is built with support for paravirtual guests"),
    machine.FULL: ("hvm", "enable the processor's virtualization in the machine's firmware settings"),
}


class Requirements:
    """The requirements of parameters on this node, for the hypervisor ``kind``."""

    def __init__(self, runtime: interface.Runtime, xl: domains.Xl, *, kind: str) -> None:
        self._disk = runtime.disk
        self._runtime = runtime
        self._xl = xl
        self._kind = kind

    async def check(self, hvparams: Parameters) -> None:
        """Raise InvalidError or EnvironmentFaultError for a parameter that cannot be used on this node."""
        affinity.parse(str(hvparams.get("cpu_mask") or affinity.ALL))
        for parameter, path in self._files(hvparams).items():
            if path and not self._disk.exists(path):
                raise errors.InvalidError(f"{parameter}: there is no file {path} on node {self._runtime.host}")
        if hvparams.get("use_bootloader") and not hvparams.get("bootloader_path"):
            raise errors.InvalidError("use_bootloader requires bootloader_path")
        await self.check_xen()

    def _files(self, hvparams: Parameters) -> dict[str, str]:
        names = ["vif_script"]
        if self._kind == machine.PARAVIRTUAL:
            names += ["bootloader_path"] if hvparams.get("use_bootloader") else ["kernel_path", "initrd_path"]
        else:
            names.append("cdrom_image_path")
            if hvparams.get("vnc_bind_address"):
                names.append("vnc_password_file")
        files = {name: str(hvparams.get(name, "")) for name in names}
        own = {"kernel_path": machine.OWN_FIRMWARE, "device_model": machine.OWN_DEVICE_MODEL}
        if self._kind == machine.FULL:
            files |= {name: machine.override(hvparams, name, own_name) for name, own_name in own.items()}
        return files

    def password(self, hvparams: Parameters) -> str:
        """Return the password of the VNC server; empty if it has none."""
        path = str(hvparams.get("vnc_password_file", ""))
        return self._disk.read(path).decode().strip() if path and hvparams.get("vnc_bind_address") else ""

    async def check_xen(self) -> None:
        """Raise EnvironmentFaultError or HypervisorError unless Xen runs here and supports this hypervisor."""
        capability, hint = CAPABILITIES[self._kind]
        info = await self._xl.machine()
        if capability not in info.get("virt_caps", "").split():
            raise errors.EnvironmentFaultError(
                f"Xen of node {self._runtime.host} cannot run {self._kind} guests", hint=hint
            )

    async def memory(self) -> tuple[int, int] | None:
        """Return total and free MiB of the machine; None if Xen does not run here."""
        if not self._disk.exists(HYPERVISOR_TYPE) or self._disk.read(HYPERVISOR_TYPE).strip() != b"xen":
            return None
        info = await self._xl.machine()
        return int(info["total_memory"]), int(info["free_memory"])
