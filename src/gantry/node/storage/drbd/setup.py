"""DRBD's programs: one method per command of drbdsetup and drbdmeta, for the version 8.4 in Linux's own tree.

``driver`` calls them. Resources are called ``resource<minor>`` and have one volume. The metadata is external and of
flexible size, so a volume of a few MiB or of 128 holds it. A disk that fails is detached; the guest goes on with the
peer's.
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
# seconds that two nodes get to agree on a new size
AGREEMENT = 20.0


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
        """Return a disk's parameters; InvalidError."""
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
    """DRBD's programs on one node."""

    def __init__(self, runtime: interface.Runtime, tools: programs.Programs) -> None:
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._tools = tools
        self.node = tools.node

    def problem(self) -> tuple[str, str]:
        """Return what keeps the node from having mirrored disks, and what to do; empty when nothing does."""
        if not self._disk.exists(PROC):
            return f"node {self.node} has no DRBD in its kernel", f"load it: {LOAD}"
        version = re.search(rb"version: (\d+\.\d+)", self._disk.read(PROC))
        if version is None or version[1] != b"8.4":
            found = version[1].decode() if version else "unknown"
            return f"node {self.node} has DRBD {found}", "8.4, which comes with Linux, is needed"
        helper = self._disk.read(HELPER).decode().strip() if self._disk.exists(HELPER) else ""
        if helper.endswith("drbdadm"):
            # It fails without configuration files, and the kernel then drops the first synchronisation.
            return f"DRBD on node {self.node} calls {helper}, which knows nothing of our disks", f"load it so: {LOAD}"
        return "", ""

    def check(self) -> None:
        """Raise EnvironmentFaultError when the node cannot have mirrored disks."""
        problem, hint = self.problem()
        if problem:
            raise errors.EnvironmentFaultError(problem, hint=hint)

    def minor(self, number: int) -> status.Minor | None:
        """Return what the kernel knows of a minor."""
        if not self._disk.exists(PROC):
            return None
        return status.minors(self._disk.read(PROC).decode()).get(number)

    def size(self, number: int) -> int:
        """Return the size of a minor in MiB, 0 while it has none."""
        path = f"/sys/block/drbd{number}/size"
        return int(self._disk.read(path)) // 2048 if self._disk.exists(path) else 0

    async def show(self, number: int) -> status.Shown | None:
        """Return how a minor is set up."""
        done = await self._tools.run("drbdsetup", "show", str(number), package=PACKAGE)
        return status.shown(done.stdout.decode()) if done.code == 0 else None

    async def reason(self, number: int) -> str:
        """Return why the kernel last gave a minor's connection up."""
        done = await self._tools.run("dmesg", package="util-linux")
        return status.reason(done.stdout.decode(errors="replace"), resource=resource(number), minor=number)

    async def has_metadata(self, number: int, meta: str) -> bool:
        """Tell whether a volume holds the metadata of a DRBD device; BlockDeviceError when that cannot be seen."""
        done = await self._meta(number, meta, "dump-md")
        said = (done.stderr + done.stdout).lower()
        if done.code and b"unclean" not in said and b"no valid meta" not in said:
            raise self._failure("dump-md", done)
        return b"no valid meta" not in said

    async def create_metadata(self, number: int, meta: str) -> None:
        """Write new metadata: the disk then knows of no data."""
        done = await self._meta(number, meta, "create-md")
        if done.code:
            raise self._failure("create-md", done)

    async def _meta(self, number: int, meta: str, command: str) -> commands.Completed:
        words = ("drbdmeta", "--force", str(number), "v08", meta, "flex-external", command)
        return await self._tools.run(*words, package=PACKAGE)

    async def new(self, number: int) -> None:
        """Make the resource and its minor."""
        name = resource(number)
        done = await self._tools.run("drbdsetup", "new-resource", name, package=PACKAGE)
        if done.code:
            # What a crash left between the two commands; a resource with a minor was looked for before.
            await self._command("del-resource", name)
            await self._command("new-resource", name)
        await self._command("new-minor", name, str(number), "0")

    async def attach(self, number: int, *, data: str, meta: str, parameters: Parameters) -> None:
        """Give a minor its local disk; what a crash left open in the metadata is closed first."""
        words = ("attach", str(number), data, meta, "flexible", "--on-io-error=detach", *parameters.disk_options())
        done = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if done.code and UNCLEAN.encode() in done.stderr + done.stdout:
            closed = await self._meta(number, meta, "apply-al")
            if closed.code:
                raise self._failure("apply-al", closed)
            done = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if done.code:
            raise self._failure("attach", done)

    async def tune(self, number: int, parameters: Parameters) -> None:
        """Set the options of a local disk anew."""
        await self._command("disk-options", str(number), *parameters.disk_options())

    async def detach(self, number: int) -> None:
        """Take a minor's local disk away."""
        await self._command("detach", str(number))

    async def connect(self, mirror: calls.Mirror, *, parameters: Parameters, options: dict[str, str]) -> None:
        """Connect a resource to its peer."""
        given = {
            "protocol": parameters.protocol,
            "cram-hmac-alg": DIGEST,
            "shared-secret": mirror.secret,
            "after-sb-0pri": "discard-zero-changes",
            "after-sb-1pri": "consensus",
        } | options
        words = [f"--{name}={value}" for name, value in given.items()]
        await self._command("connect", resource(mirror.minor), *ends(mirror), *words, *parameters.net_custom.split())

    async def net_options(self, mirror: calls.Mirror, **options: str) -> None:
        """Change options of a connection while it is up."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        await self._command("net-options", *ends(mirror), *words)

    async def disconnect(self, local: str, remote: str) -> None:
        """Part a resource from its peer, whether that agrees or not."""
        done = await self._tools.run("drbdsetup", "disconnect", local, remote, package=PACKAGE)
        if done.code:
            await self._command("disconnect", local, remote, "--force")

    async def role(self, number: int, role: str, *, force: bool = False) -> None:
        """Make a minor ``primary`` or ``secondary``; WrongStateError."""
        done = await self._tools.run("drbdsetup", role, str(number), *(("--force",) if force else ()), package=PACKAGE)
        if done.code:
            said = programs.said(done)
            hint = "wait for its synchronisation" if role == "primary" else "stop what uses it"
            raise errors.WrongStateError(f"drbd{number} on node {self.node} cannot become {role}: {said}", hint=hint)

    async def resize(self, number: int, size: int) -> None:
        """Let a minor use all that its disks have; return when that is ``size`` MiB, for two nodes must agree first."""
        await self._command("resize", str(number))
        deadline = self._clock.monotonic() + AGREEMENT
        while self.size(number) < size and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.1)

    async def pause(self, number: int, *, pause: bool) -> None:
        """Let a resynchronisation wait, or go on."""
        await self._command("pause-sync" if pause else "resume-sync", str(number))

    async def down(self, name: str, *, number: int) -> None:
        """Take a resource away with all it has; WrongStateError while it is open."""
        done = await self._tools.run("drbdsetup", "down", name, package=PACKAGE)
        if done.code:
            raise errors.WrongStateError(
                f"drbd{number} on node {self.node} cannot be taken down: {programs.said(done)}",
                hint="stop what uses it",
            )

    async def _command(self, *words: str) -> None:
        done = await self._tools.run("drbdsetup", *words, package=PACKAGE)
        if done.code:
            raise self._failure(words[0], done)

    def _failure(self, command: str, done: commands.Completed) -> errors.BlockDeviceError:
        lines = (done.stderr + done.stdout).decode(errors="replace").split("\n")
        said = next((line.strip() for line in lines if "Failure" in line or "error" in line.lower()), "")
        return errors.BlockDeviceError(f"DRBD's {command} failed on node {self.node}: {said or programs.said(done)}")


def resource(number: int) -> str:
    """Return the name of a minor's resource."""
    return f"resource{number}"


def address(host: str, port: int) -> str:
    """Return an address as ``drbdsetup show`` spells it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint(shown: str) -> str:
    """Return an address as drbdsetup takes it, from how it shows it."""
    return f"{'ipv6' if shown.startswith('[') else 'ipv4'}:{shown}"


def ends(mirror: calls.Mirror) -> tuple[str, str]:
    """Return both addresses of a mirror as drbdsetup takes them."""
    local, remote = (address(host, mirror.port) for host in (mirror.local, mirror.remote))
    return endpoint(local), endpoint(remote)
