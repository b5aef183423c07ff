"""The command ``xl``: running it, and reading what it tells of domains.

``driver`` and ``migration`` call. A domain is named after its instance. xl says why something failed in many lines, of
which the first that is an error is told.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.node.storage import programs
from gantry.runtime import commands, interface

XL = "xl"
PACKAGE = "xen-utils"
# seconds: a domain is built in one, on a loaded machine in many
PATIENCE = 240.0
LOOK = 50.0
# What xl list -v calls the reasons of a domain that stands still for good.
POWEROFF, REBOOT, SUSPENDED = 0, 1, 2
MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_ORIGIN = re.compile(r"^(libxl: |xc: )?error: ([\w.]+:\d+:\w+: )?")


@dataclass(frozen=True)
class Domain:
    """A domain: memory in MiB, the letters of its state, and the number of the reason why it stands still for good."""

    name: str
    number: int
    memory: int
    vcpus: int
    flags: str
    uuid: str = ""
    reason: int | None = None

    @property
    def paused(self) -> bool:
        """Tell whether its processors are stopped."""
        return "p" in self.flags

    @property
    def suspended(self) -> bool:
        """Tell whether it stands still because it is being saved."""
        return self.reason == SUSPENDED

    @property
    def rebooting(self) -> bool:
        """Tell whether it wants to be started again."""
        return self.reason == REBOOT

    @property
    def ended(self) -> bool:
        """Tell whether it is over with it: powered off, crashed, or about to vanish."""
        return self.reason not in (None, SUSPENDED) or "d" in self.flags

    @property
    def how(self) -> str:
        """Return how it ended, as ``calls.Ending`` says it."""
        return {POWEROFF: "shutdown", REBOOT: "shutdown", None: "unknown"}.get(self.reason, "crashed")


def parse(told: str) -> dict[str, Domain]:
    """Return the domains of ``xl list -v`` by name, without the node's own."""
    found: dict[str, Domain] = {}
    for line in told.splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[1] == "0":
            continue
        name, number, memory, vcpus, flags, _, uuid, reason = words[:8]
        why = int(reason, 16) if reason != "-" else None
        found[name] = Domain(name, int(number), int(memory), int(vcpus), flags, uuid, why)
    return found


def why(done: commands.Completed) -> str:
    """Return why xl failed, without where in its source that was."""
    lines = (done.stderr + b"\n" + done.stdout).decode(errors="replace").splitlines()
    telling = [line.strip() for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return _ORIGIN.sub("", telling[0]) if telling else programs.failure_reason(done)


class Xl:
    """The program on one node; ``program`` is another only in tests."""

    def __init__(self, runtime: interface.Runtime, program: str = XL) -> None:
        self._tools = programs.Programs(runtime)
        self._node = runtime.host
        self.program = program

    async def run(self, *arguments: str, timeout: float = PATIENCE) -> commands.Completed:
        """Run xl to its end, however it ends; HypervisorError when it takes too long."""
        try:
            return await self._tools.run(self.program, *arguments, package=PACKAGE, timeout=timeout)
        except TimeoutError:
            raise errors.HypervisorError(
                f"xl {arguments[0]} on node {self._node} did not end within {timeout:.0f} s"
            ) from None

    async def succeed(self, *arguments: str, what: str, timeout: float = PATIENCE) -> str:
        """Run xl and return what it wrote; HypervisorError that says ``what`` failed and why."""
        done = await self.run(*arguments, timeout=timeout)
        if done.code:
            raise errors.HypervisorError(f"{what} on node {self._node}: {why(done)}")
        return done.stdout.decode(errors="replace")

    async def all(self) -> dict[str, Domain]:
        """List the domains by name."""
        return parse(await self.succeed("list", "-v", what="domains cannot be listed", timeout=LOOK))

    async def find(self, name: str) -> Domain | None:
        """Return a domain; None when there is none of that name."""
        return (await self.all()).get(name)

    async def nics(self, name: str) -> Mapping[str, int]:
        """Return the numbers of a domain's NICs by MAC address."""
        told = await self.succeed("network-list", name, what=f"NICs of {name} cannot be listed")
        found = {}
        for line in told.splitlines()[1:]:
            mac = MAC.search(line.lower())
            if mac:
                found[mac.group()] = int(line.split()[0])
        return found

    async def machine(self) -> Mapping[str, str]:
        """Return what xl tells of the whole machine; HypervisorError when it does not run on Xen."""
        told = await self.succeed("info", what="Xen does not answer", timeout=LOOK)
        pairs = (line.partition(":") for line in told.splitlines())
        return {key.strip(): value.strip() for key, _, value in pairs}
