"""What parameters of Xen's guests want of this node, checked before anything changes.

``model`` checks names and types on the master. Here is what only the node can tell: files, values that cannot be had
together, and whether Xen runs here and can do such guests.
"""

from collections.abc import Mapping

from gantry import errors
from gantry.node.hypervisors.kvm import affinity
from gantry.node.hypervisors.xen import domains, machine
from gantry.rpc import calls
from gantry.runtime import interface

Parameters = Mapping[str, calls.Value]
# What a kernel says that runs on a hypervisor.
BELOW = "/sys/hypervisor/type"
# What xl info calls the kinds of guests, and what a machine lacks that cannot do them.
ABILITIES = {
    machine.PARAVIRTUAL: ("pv", "Xen was built without paravirtual guests"),
    machine.FULL: ("hvm", "switch the processor's virtualization on in its firmware"),
}


class Wants:
    """What this node can give its guests of one ``kind``."""

    def __init__(self, runtime: interface.Runtime, xl: domains.Xl, *, kind: str) -> None:
        self._disk = runtime.disk
        self._node = runtime.host
        self._xl = xl
        self._kind = kind

    async def check(self, hvparams: Parameters) -> None:
        """Raise InvalidError or EnvironmentFaultError for a parameter that cannot be honoured here."""
        affinity.parse(str(hvparams.get("cpu_mask") or affinity.ALL))
        for parameter, path in self._files(hvparams).items():
            if path and not self._disk.exists(path):
                raise errors.InvalidError(f"{parameter}: there is no file {path} on node {self._node}")
        if hvparams.get("use_bootloader") and not hvparams.get("bootloader_path"):
            raise errors.InvalidError("use_bootloader needs a bootloader_path to go with it")
        await self.check_xen()

    def _files(self, hvparams: Parameters) -> dict[str, str]:
        wanted = ["vif_script"]
        if self._kind == machine.PARAVIRTUAL:
            wanted += ["bootloader_path"] if hvparams.get("use_bootloader") else ["kernel_path", "initrd_path"]
        else:
            wanted.append("cdrom_image_path")
            if hvparams.get("vnc_bind_address"):
                wanted.append("vnc_password_file")
        found = {name: str(hvparams.get(name, "")) for name in wanted}
        own = {"kernel_path": machine.OWN_FIRMWARE, "device_model": machine.OWN_DEVICE_MODEL}
        if self._kind == machine.FULL:
            found |= {name: machine.foreign(hvparams, name, part) for name, part in own.items()}
        return found

    def password(self, hvparams: Parameters) -> str:
        """Return the password of the VNC server; empty for none."""
        path = str(hvparams.get("vnc_password_file", ""))
        return self._disk.read(path).decode().strip() if path and hvparams.get("vnc_bind_address") else ""

    async def check_xen(self) -> None:
        """Raise EnvironmentFaultError or HypervisorError unless Xen runs here and can do this kind of guest."""
        ability, missing = ABILITIES[self._kind]
        told = await self._xl.machine()
        if ability not in told.get("virt_caps", "").split():
            raise errors.EnvironmentFaultError(f"Xen of node {self._node} cannot run {self._kind}", hint=missing)

    async def memory(self) -> tuple[int, int] | None:
        """Return total and free MiB of the machine; None when Xen does not run here."""
        if not self._disk.exists(BELOW) or self._disk.read(BELOW).strip() != b"xen":
            return None
        told = await self._xl.machine()
        return int(told["total_memory"]), int(told["free_memory"])
