"""DRBD's programs: a method for each command of drbdsetup and drbdmeta, for DRBD 8.4 from the Linux source tree.

``driver`` calls them. A resource has the name ``resource<minor>`` and one volume. The metadata is external and of
flexible size, so its volume can have a few MiB or 128. The kernel detaches a local disk that fails; the guest continues
with the peer's.
"""

import re

import msgspec

from gantry import errors
from gantry.node.storage import programs
from gantry.node.storage.drbd import status
from gantry.rpc import calls
from gantry.runtime import commands, interface

PACKAGE = "drbd-utils"
PROC = "/proc/drbd"
HELPER = "/sys/module/drbd/parameters/usermode_helper"
LOAD = "modprobe drbd usermode_helper=/bin/true minor_count=255"
UNCLEAN = "(165)"
DIGEST = "sha256"
RESIZE_TIMEOUT_SECONDS = 20.0
"""For two nodes to agree on a new size."""
DEAD_PEER_SECONDS = 20.0
"""In which the kernel notices that its peer is dead, by a ping each 10 s; until then the peer counts as primary."""
TWO_PRIMARIES = b"Multiple primaries not allowed"


class Parameters(msgspec.Struct, frozen=True, rename="kebab"):
    """The disk parameters of DRBD, filled (contracts/configuration.md#disk-parameters); rates in KiB/s."""

    resync_rate: int
    protocol: str
    disk_barriers: str
    meta_barriers: bool
    dynamic_resync: bool
    c_plan_ahead: int
    c_fill_target: int
    c_delay_target: int
    c_max_rate: int
    c_min_rate: int
    disk_custom: str
    net_custom: str

    @classmethod
    def of(cls, disk: calls.Disk) -> "Parameters":
        """Return the parameters of a disk; InvalidError."""
        try:
            return msgspec.convert(disk.params, cls)
        except msgspec.ValidationError as error:
            raise errors.InvalidError(f"disk {disk.index}: {error}") from None

    def disk_options(self) -> list[str]:
        """Return the options of the local disk."""
        barriers = {"b": "--disk-barrier=no", "d": "--disk-drain=no", "f": "--disk-flushes=no"}
        rate = (
            [
                f"--c-plan-ahead={self.c_plan_ahead}",
                f"--c-fill-target={self.c_fill_target}s",
                f"--c-delay-target={self.c_delay_target}",
                f"--c-max-rate={self.c_max_rate}",
                f"--c-min-rate={self.c_min_rate}",
            ]
            if self.dynamic_resync
            else ["--c-plan-ahead=0", f"--resync-rate={self.resync_rate}"]
        )
        return [
            *(option for letter, option in barriers.items() if letter in self.disk_barriers),
            *(["--md-flushes=no"] if self.meta_barriers else []),
            *rate,
            *self.disk_custom.split(),
        ]


class Setup:
    """DRBD's programs on a node."""

    def __init__(self, runtime: interface.Runtime, tools: programs.Programs) -> None:
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._tools = tools

    def problem(self) -> tuple[str, str]:
        """Return why the node cannot have mirrored disks, and what to do; both empty if it can."""
        if not self._disk.exists(PROC):
            return f"the kernel of node {self._tools.node} has no DRBD module loaded", f"load it: {LOAD}"
        version = re.search(rb"version: (\d+\.\d+)", self._disk.read(PROC))
        if version is None or version[1] != b"8.4":
            number = version[1].decode() if version else "of an unknown version"
            return f"node {self._tools.node} has DRBD {number}", "use DRBD 8.4, which is a part of Linux"
        helper = self._disk.read(HELPER).decode().strip() if self._disk.exists(HELPER) else ""
        if helper.endswith("drbdadm"):
            # It fails without configuration files, and the kernel then aborts the first synchronization.
            return (
                f"DRBD on node {self._tools.node} runs {helper}, which fails without configuration files",
                f"reload the module: {LOAD}",
            )
        return "", ""

    def check(self) -> None:
        """Raise EnvironmentFaultError if the node cannot have mirrored disks."""
        problem, hint = self.problem()
        if problem:
            raise errors.EnvironmentFaultError(problem, hint=hint)

    def minor(self, number: int) -> status.Minor | None:
        """Return the kernel's status of a minor, None if it has none."""
        if not self._disk.exists(PROC):
            return None
        return status.minors(self._disk.read(PROC).decode()).get(number)

    def size(self, number: int) -> int:
        """Return the size of a minor in MiB, 0 if it has none."""
        path = f"/sys/block/drbd{number}/size"
        return int(self._disk.read(path)) // 2048 if self._disk.exists(path) else 0

    async def show(self, number: int) -> status.Configuration | None:
        """Return the configuration of a minor, None if it has none."""
        process = await self._tools.run("drbdsetup", "show", str(number), package=PACKAGE)
        return status.configuration(process.stdout.decode()) if process.code == 0 else None

    async def reason(self, number: int) -> str:
        """Return why the kernel last ended a minor's connection, empty if unknown."""
        process = await self._tools.run("dmesg", package="util-linux")
        return status.reason(process.stdout.decode(errors="replace"), resource=resource(number), minor=number)

    async def has_metadata(self, number: int, meta: str) -> bool:
        """Return whether a volume contains DRBD metadata; BlockDeviceError if that cannot be determined."""
        process = await self._meta(number, meta, "dump-md")
        output = (process.stderr + process.stdout).lower()
        if process.code and b"unclean" not in output and b"no valid meta" not in output:
            raise self._failure("dump-md", process)
        return b"no valid meta" not in output

    async def create_metadata(self, number: int, meta: str) -> None:
        """Write new metadata, according to which the disk has no data."""
        process = await self._meta(number, meta, "create-md")
        if process.code:
            raise self._failure("create-md", process)

    async def _meta(self, number: int, meta: str, command: str) -> commands.Completed:
        words = ("drbdmeta", "--force", str(number), "v08", meta, "flex-external", command)
        return await self._tools.run(*words, package=PACKAGE)

    async def new(self, number: int) -> None:
        """Create the resource and its minor."""
        name = resource(number)
        process = await self._tools.run("drbdsetup", "new-resource", name, package=PACKAGE)
        if process.code:
            # After a crash between the two commands the resource exists without a minor; callers check for a minor.
            await self._command("del-resource", name)
            await self._command("new-resource", name)
        await self._command("new-minor", name, str(number), "0")

    async def attach(self, number: int, *, data: str, meta: str, parameters: Parameters) -> None:
        """Attach a minor's local disk; if a crash left the metadata unclean, first apply its activity log."""
        words = ("attach", str(number), data, meta, "flexible", "--on-io-error=detach", *parameters.disk_options())
        process = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if process.code and UNCLEAN.encode() in process.stderr + process.stdout:
            repair = await self._meta(number, meta, "apply-al")
            if repair.code:
                raise self._failure("apply-al", repair)
            process = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if process.code:
            raise self._failure("attach", process)

    async def tune(self, number: int, parameters: Parameters) -> None:
        """Change the options of an attached local disk."""
        await self._command("disk-options", str(number), *parameters.disk_options())

    async def detach(self, number: int) -> None:
        """Detach a minor's local disk."""
        await self._command("detach", str(number))

    async def connect(self, mirror: calls.Mirror, *, parameters: Parameters, options: dict[str, str]) -> None:
        """Connect a resource to its peer."""
        net_options = {
            "protocol": parameters.protocol,
            "cram-hmac-alg": DIGEST,
            "shared-secret": mirror.secret,
            "after-sb-0pri": "discard-zero-changes",
            "after-sb-1pri": "consensus",
        } | options
        words = [f"--{name}={value}" for name, value in net_options.items()]
        await self._command("connect", resource(mirror.minor), *ends(mirror), *words, *parameters.net_custom.split())

    async def net_options(self, mirror: calls.Mirror, **options: str) -> None:
        """Change options of an existing connection."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        await self._command("net-options", *ends(mirror), *words)

    async def disconnect(self, local: str, remote: str) -> None:
        """Disconnect a resource from its peer, by force if necessary."""
        process = await self._tools.run("drbdsetup", "disconnect", local, remote, package=PACKAGE)
        if process.code:
            await self._command("disconnect", local, remote, "--force")

    async def role(self, number: int, role: str, *, force: bool = False) -> None:
        """Make a minor ``primary`` or ``secondary``; WrongStateError.

        The peer of a primary may have died a moment ago, as before a failover: then the kernel agrees soon.
        """
        arguments = ("drbdsetup", role, str(number), *(("--force",) if force else ()))
        process = await self._tools.run(*arguments, package=PACKAGE)
        deadline = self._clock.monotonic() + DEAD_PEER_SECONDS
        while _has_primary_peer(process) and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.5)
            process = await self._tools.run(*arguments, package=PACKAGE)
        if process.code:
            hint = "stop the program that uses it"
            if role == "primary":
                is_busy = _has_primary_peer(process)
                hint = "its other node uses it: stop it there" if is_busy else "wait for its synchronization"
            raise errors.WrongStateError(
                f"drbd{number} on node {self._tools.node} cannot become {role}: {programs.failure_reason(process)}",
                hint=hint,
            )

    async def resize(self, number: int, size: int) -> None:
        """Grow a minor to the size of its disks; return when it has ``size`` MiB, or after the timeout.

        Both nodes must agree on the size first.
        """
        await self._command("resize", str(number))
        deadline = self._clock.monotonic() + RESIZE_TIMEOUT_SECONDS
        while self.size(number) < size and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.1)

    async def pause(self, number: int, *, pause: bool) -> None:
        """Pause a resynchronization, or resume it."""
        await self._command("pause-sync" if pause else "resume-sync", str(number))

    async def down(self, name: str, *, number: int) -> None:
        """Shut a resource down with its minor and connection; WrongStateError while the device is open."""
        process = await self._tools.run("drbdsetup", "down", name, package=PACKAGE)
        if process.code:
            raise errors.WrongStateError(
                f"drbd{number} on node {self._tools.node} cannot be shut down: {programs.failure_reason(process)}",
                hint="stop the program that uses it",
            )

    async def _command(self, *words: str) -> None:
        process = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if process.code:
            raise self._failure(words[0], process)

    def _failure(self, command: str, process: commands.Completed) -> errors.BlockDeviceError:
        lines = (process.stderr + process.stdout).decode(errors="replace").split("\n")
        reason = next((line.strip() for line in lines if "Failure" in line or "error" in line.lower()), "")
        return errors.BlockDeviceError(
            f"DRBD's {command} failed on node {self._tools.node}: {reason or programs.failure_reason(process)}"
        )


def _has_primary_peer(process: commands.Completed) -> bool:
    return bool(process.code) and TWO_PRIMARIES in process.stderr + process.stdout


def resource(number: int) -> str:
    """Return the name of the resource for a minor."""
    return f"resource{number}"


def address(host: str, port: int) -> str:
    """Return an address as ``drbdsetup show`` prints it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint(address_text: str) -> str:
    """Return an address in the form of drbdsetup's arguments, from the form that ``drbdsetup show`` prints."""
    return f"{'ipv6' if address_text.startswith('[') else 'ipv4'}:{address_text}"


def ends(mirror: calls.Mirror) -> tuple[str, str]:
    """Return the local and the remote address of a mirror in the form of drbdsetup's arguments."""
    local, remote = (address(host, mirror.port) for host in (mirror.local, mirror.remote))
    return endpoint(local), endpoint(remote)
