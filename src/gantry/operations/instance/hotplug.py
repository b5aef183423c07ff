"""Steps that plug, unplug and reconnect NICs of a running instance on its node, for ``set_params``.

UUID and MAC address identify a NIC: to the guest, a NIC with another MAC address is another NIC.
"""

from msgspec import structs

from gantry.operations import base
from gantry.rpc import calls, targets


class HotPlug:
    """The steps that bring a running instance's NICs from ``before`` to ``after``."""

    def __init__(
        self, environment: base.Environment, target: targets.Target, *, before: calls.Instance, after: calls.Instance
    ) -> None:
        self._environment = environment
        self._target = target
        self._before, self._after = before, after
        self._old = {(nic.uuid, nic.mac): nic for nic in before.nics}
        self._new = {(nic.uuid, nic.mac): nic for nic in after.nics}

    def unplug(self) -> list[base.Step]:
        """Return the steps for removed NICs; a NIC whose MAC address changes is unplugged and plugged again."""
        return [
            base.call_step(
                f"unplug NIC {nic.index} ({nic.mac}) of {self._before.name}",
                self._target,
                calls.NicUnplug(instance=self._before, nic=nic),
                calls.NicPlug(instance=self._before, nic=nic),
            )
            for key, nic in self._old.items()
            if key not in self._new
        ]

    def plug(self) -> list[base.Step]:
        """Return the steps for added NICs."""
        return [
            base.call_step(
                f"plug NIC {nic.index} ({nic.mac}) into {self._after.name}",
                self._target,
                calls.NicPlug(instance=self._after, nic=nic),
                calls.NicUnplug(instance=self._after, nic=nic),
            )
            for key, nic in self._new.items()
            if key not in self._old
        ]

    def reconnect(self) -> list[base.Step]:
        """Return the steps for NICs that remain and change in more than their index."""
        return [
            base.Step(
                f"reconnect NIC {nic.index} ({nic.mac}) of {self._after.name}",
                self._update(self._after, nic),
                self._update(self._before, self._old[key]),
            )
            for key, nic in self._new.items()
            if key in self._old and structs.replace(self._old[key], index=nic.index) != nic
        ]

    def _update(self, vm: calls.Instance, nic: calls.Nic) -> base.Actions:
        async def update() -> None:
            if not await self._environment.nodes.call(self._target, calls.NicUpdate(instance=vm, nic=nic)):
                self._environment.log.info(
                    f"NIC {nic.index} is not plugged in: the change takes effect at the next start of the instance"
                )

        return (base.Procedure("logs whether the NIC is plugged in", update),)
