"""The power and reset buttons of Xen's domains, and waiting for what they do. ``driver`` calls, holding the lock."""

from collections.abc import Callable

from gantry import errors
from gantry.node.hypervisors.xen import domains
from gantry.runtime import interface

POLL = 0.5
# A guest that still boots does not see the button, so it is pressed again and again.
PRESS_INTERVAL = 5.0
DESTROY_LIMIT = 30.0


class Power:
    """Buttons of the domains of one node."""

    def __init__(self, clock: interface.Clock, xl: domains.Xl) -> None:
        self._clock = clock
        self._xl = xl

    async def press(
        self, button: str, name: str, *, timeout: float, until: Callable[[domains.Domain | None], bool]
    ) -> bool:
        """Press ``shutdown`` or ``reboot`` until the domain looks as wanted or the time is over; tell which."""
        limit = self._clock.monotonic() + timeout
        while (left := limit - self._clock.monotonic()) > 0:
            # Without Xen's drivers an HVM guest hears of it by ACPI (-F); whether it hears is seen below.
            await self._xl.run(button, "-F", name)
            if await self._until(name, until, within=min(left, PRESS_INTERVAL)):
                return True
        return False

    async def cut(self, name: str) -> None:
        """Destroy a domain; HypervisorError when it stays. One that is not there is no error."""
        if await self._xl.find(name) is None:
            return
        done = await self._xl.run("destroy", name)
        if not await self._until(name, lambda now: now is None, within=DESTROY_LIMIT):
            raise errors.HypervisorError(f"instance {name} cannot be destroyed: {domains.why(done)}")

    async def _until(self, name: str, reached: Callable[[domains.Domain | None], bool], *, within: float) -> bool:
        limit = self._clock.monotonic() + within
        while not reached(await self._xl.find(name)):
            if self._clock.monotonic() >= limit:
                return False
            await self._clock.sleep(POLL)
        return True
