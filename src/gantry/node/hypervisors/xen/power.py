"""The power and reset buttons of Xen's domains: presses them and waits for their effect.

``driver`` calls it and holds the guest's lock.
"""

from collections.abc import Callable

from gantry import errors
from gantry.node.hypervisors.xen import domains
from gantry.runtime import interface

POLL_SECONDS = 0.5
PRESS_INTERVAL_SECONDS = 5.0
"""A guest that is still booting does not notice the button, so the button is pressed repeatedly."""
DESTROY_TIMEOUT_SECONDS = 30.0


class Power:
    """The buttons of the domains of a node."""

    def __init__(self, clock: interface.Clock, xl: domains.Xl) -> None:
        self._clock = clock
        self._xl = xl

    async def press(
        self, button: str, name: str, *, timeout: float, until: Callable[[domains.Domain | None], bool]
    ) -> bool:
        """Press ``shutdown`` or ``reboot`` until the domain fulfils ``until`` or the timeout expires; return which."""
        limit = self._clock.monotonic() + timeout
        while (remaining_seconds := limit - self._clock.monotonic()) > 0:
            # An HVM guest without Xen's drivers is notified by ACPI (-F); ``_until`` checks whether it reacts.
            await self._xl.run(button, "-F", name)
            if await self._until(name, until, within=min(remaining_seconds, PRESS_INTERVAL_SECONDS)):
                return True
        return False

    async def destroy(self, name: str) -> None:
        """Destroy a domain, if it exists; HypervisorError if it is not destroyed in time."""
        if await self._xl.find(name) is None:
            return
        process = await self._xl.run("destroy", name)
        if not await self._until(name, lambda now: now is None, within=DESTROY_TIMEOUT_SECONDS):
            raise errors.HypervisorError(f"instance {name} cannot be destroyed: {domains.failure_reason(process)}")

    async def _until(self, name: str, reached: Callable[[domains.Domain | None], bool], *, within: float) -> bool:
        limit = self._clock.monotonic() + within
        while not reached(await self._xl.find(name)):
            if self._clock.monotonic() >= limit:
                return False
            await self._clock.sleep(POLL_SECONDS)
        return True
