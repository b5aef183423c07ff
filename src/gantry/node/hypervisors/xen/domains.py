"""The command ``xl``: runs it and parses its output about domains.

``driver`` and ``migration`` call it. A domain is named after its instance. xl reports a failure in many lines; errors
have the first line that is an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.node.storage import programs
from gantry.runtime import commands, interface

XL = "xl"
PACKAGE = "xen-utils"
TIMEOUT_SECONDS = 240.0
"""For changes: building a domain takes a second, on a loaded machine many."""
QUERY_TIMEOUT_SECONDS = 50.0
# The shutdown reasons in xl list -v.
POWEROFF, REBOOT, SUSPENDED = 0, 1, 2
MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_ORIGIN = re.compile(r"^(libxl: |xc: )?error: ([\w.]+:\d+:\w+: )?")


@dataclass(frozen=True)
class Domain:
    """A domain: memory in MiB, the letters of its state, and its shutdown reason, None while it runs."""

    name: str
    number: int
    memory: int
    vcpus: int
    flags: str
    uuid: str = ""
    reason: int | None = None

    @property
    def paused(self) -> bool:
        """Return whether its processors are stopped."""
        return "p" in self.flags

    @property
    def suspended(self) -> bool:
        """Return whether it is stopped because it is being saved."""
        return self.reason == SUSPENDED

    @property
    def rebooting(self) -> bool:
        """Return whether it has shut down in order to reboot."""
        return self.reason == REBOOT

    @property
    def ended(self) -> bool:
        """Return whether it has ended: powered off, crashed, or being destroyed."""
        return self.reason not in (None, SUSPENDED) or "d" in self.flags

    @property
    def how(self) -> str:
        """Return how it ended, in the terms of ``calls.Ending``."""
        return {POWEROFF: "shutdown", REBOOT: "shutdown", None: "unknown"}.get(self.reason, "crashed")


def parse(output: str) -> dict[str, Domain]:
    """Return the domains in the output of ``xl list -v`` by name, without the node's own."""
    domains: dict[str, Domain] = {}
    for line in output.splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[1] == "0":
            continue
        name, number, memory, vcpus, flags, _, uuid, reason = words[:8]
        shutdown_reason = int(reason, 16) if reason != "-" else None
        domains[name] = Domain(name, int(number), int(memory), int(vcpus), flags, uuid, shutdown_reason)
    return domains


def failure_reason(process: commands.Completed) -> str:
    """Return why xl failed, without the position in xl's source."""
    lines = (process.stderr + b"\n" + process.stdout).decode(errors="replace").splitlines()
    reasons = [line.strip() for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return _ORIGIN.sub("", reasons[0]) if reasons else programs.failure_reason(process)


class Xl:
    """The program on a node; tests use another ``program``."""

    def __init__(self, runtime: interface.Runtime, program: str = XL) -> None:
        self._tools = programs.Programs(runtime)
        self._processes = runtime.processes
        self._runtime = runtime
        self.program = program

    async def run(self, *arguments: str, timeout: float = TIMEOUT_SECONDS, guest: str = "") -> commands.Completed:
        """Run xl to its end and return its result, whatever its exit code; HypervisorError if it times out.

        What it leaves behind for a ``guest``, such as a device model, outlives the service of this daemon.
        """
        words: Sequence[str] = [self.program, *arguments]
        if guest:
            words = await self._processes.in_scope(guest, words)
        try:
            return await self._tools.run(*words, package=PACKAGE, timeout=timeout)
        except TimeoutError:
            raise errors.HypervisorError(
                f"xl {arguments[0]} on node {self._runtime.host} timed out after {timeout:.0f} s"
            ) from None

    async def succeed(self, *arguments: str, failure: str, timeout: float = TIMEOUT_SECONDS, guest: str = "") -> str:
        """Run xl and return its output; HypervisorError with ``failure`` and xl's reason if it fails."""
        process = await self.run(*arguments, timeout=timeout, guest=guest)
        if process.code:
            raise errors.HypervisorError(f"{failure} on node {self._runtime.host}: {failure_reason(process)}")
        return process.stdout.decode(errors="replace")

    async def all(self) -> dict[str, Domain]:
        """Return the domains by name."""
        return parse(
            await self.succeed("list", "-v", failure="domains cannot be listed", timeout=QUERY_TIMEOUT_SECONDS)
        )

    async def find(self, name: str) -> Domain | None:
        """Return a domain; None if there is no domain of that name."""
        return (await self.all()).get(name)

    async def nics(self, name: str) -> Mapping[str, int]:
        """Return the numbers of a domain's NICs by MAC address."""
        output = await self.succeed("network-list", name, failure=f"NICs of {name} cannot be listed")
        numbers = {}
        for line in output.splitlines()[1:]:
            mac = MAC.search(line.lower())
            if mac:
                numbers[mac.group()] = int(line.split()[0])
        return numbers

    async def machine(self) -> Mapping[str, str]:
        """Return xl's information about the machine, by key; HypervisorError if the machine does not run on Xen."""
        output = await self.succeed("info", failure="Xen does not answer", timeout=QUERY_TIMEOUT_SECONDS)
        pairs = (line.partition(":") for line in output.splitlines())
        return {key.strip(): value.strip() for key, _, value in pairs}
