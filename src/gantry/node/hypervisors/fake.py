"""The fake hypervisor, whose guests are files, for tests, benchmarks, simulations and experiments.

    <instances>/fake/<name>             a guest that "runs", a Guest in JSON
    <instances>/fake/.<name>.serial     the socket of a program that plays its serial console, if there is one; so .vnc

Starting writes the file, stopping removes it, so that guests survive a restart of the node daemon like real ones.
Nothing is synced: a machine that crashes loses its guests. A migration is complete after ``STEPS`` queries of its
status. The two nodes do not communicate; the master passes the guest from one to the other.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.rpc import calls
from gantry.runtime import bytestream, frames, interface

NAME = "fake"
MIB = 1 << 20
STEPS = 2
PORT = 8102
INCOMING_STATES = ("incoming", "arrived")


class Guest(msgspec.Struct, frozen=True):
    """A guest that pretends to run; ``most`` is its maximum memory in MiB, ``sent`` counts steps of a migration.

    ``instance`` is the machine at its start; its present NICs and disks are beside it.
    """

    running: calls.RunningInstance
    instance: calls.Instance | None = None
    nics: tuple[calls.Nic, ...] = ()
    disks: tuple[calls.Disk, ...] = ()
    most: int = 0
    sent: int = 0
    status: str = "none"

    def progress(self) -> calls.MigrationStatus:
        """Return the progress of its migration."""
        if self.status == "none":
            return calls.MigrationStatus(status="none")
        total = self.running.memory * MIB
        done = total * self.sent // STEPS
        return calls.MigrationStatus(
            status=self.status, transferred=done, total=total, remaining=total - done, downtime=1
        )


def _in_state(guest: Guest, state: str) -> Guest:
    return msgspec.structs.replace(guest, running=msgspec.structs.replace(guest.running, state=state))


class Fake:
    """The hypervisor ``fake``; ``folder`` is the node's folder of running instances.

    Without ``network``, its guests have no consoles.
    """

    def __init__(self, disk: interface.Disk, folder: str, network: interface.Network | None = None) -> None:
        self._disk = disk
        self._network = network
        self._folder = f"{folder}/{NAME}"

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Accept all parameters: the master has checked names and types."""

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Write the instance's file unless it exists."""
        present = self._guest(instance.name)
        if present is not None:
            if present.running.state in INCOMING_STATES:
                raise errors.WrongStateError(f"a migration of instance {instance.name} to this node is not finished")
            return
        memory = int(instance.beparams.get("maxmem", 0))
        running = calls.RunningInstance(
            name=instance.name,
            uuid=instance.uuid,
            hypervisor=NAME,
            memory=memory,
            vcpus=int(instance.beparams.get("vcpus", 0)),
            state="paused" if paused else "running",
            hotplug=True,
        )
        await self._write(Guest(running, instance, instance.nics, instance.disks, most=memory))

    async def _write(self, guest: Guest) -> None:
        await self._disk.make_directory(self._folder)
        await self._disk.write(self._path(guest.running.name), msgspec.json.encode(guest), sync=False)

    def _guest(self, name: str) -> Guest | None:
        if not self._disk.exists(self._path(name)):
            return None
        return msgspec.json.decode(self._disk.read(self._path(name)), type=Guest)

    async def stop(self, name: str, *, timeout: float) -> None:
        """Remove the instance's file."""
        if self._disk.exists(self._path(name)):
            await self._disk.remove(self._path(name))

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Check that the instance runs."""
        self._existing(name)

    def _existing(self, name: str) -> Guest:
        guest = self._guest(name)
        if guest is None:
            raise errors.HypervisorError(f"instance {name} does not run", hint="start it")
        return guest

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Add the NIC to the instance's file."""
        await self._write(_with_nics(self._existing(instance.name), nic, nic))

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Remove the NIC from the instance's file."""
        guest = self._guest(instance.name)
        if guest is not None:
            await self._write(_with_nics(guest, nic))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Replace the NIC in the instance's file."""
        guest = self._existing(instance.name)
        if nic.uuid not in {each.uuid for each in guest.nics}:
            return False
        await self._write(_with_nics(guest, nic, nic))
        return True

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Add the disk to the instance's file."""
        await self._write(_with_disks(self._existing(instance.name), disk, disk))

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Remove the disk from the instance's file."""
        guest = self._guest(instance.name)
        if guest is not None:
            await self._write(_with_disks(guest, disk))

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Replace the disk in the instance's file."""
        guest = self._existing(instance.name)
        if disk.uuid not in {each.uuid for each in guest.disks}:
            return False
        await self._write(_with_disks(guest, disk, disk))
        return True

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Write the amount of memory to the instance's file."""
        guest, minimum = self._existing(instance.name), int(instance.beparams["minmem"])
        if not minimum <= memory <= guest.most:
            raise errors.InvalidError(
                f"instance {instance.name} can have {minimum} to {guest.most} MiB while it runs, not {memory}"
            )
        running = msgspec.structs.replace(guest.running, memory=memory)
        await self._write(msgspec.structs.replace(guest, running=running))
        return memory

    async def migration_info(self, instance: calls.Instance) -> str:
        """Return the content of the instance's file."""
        return msgspec.json.encode(self._existing(instance.name)).decode()

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Write the file of an instance that arrives from another node."""
        present = self._guest(instance.name)
        if present is not None and present.running.state not in INCOMING_STATES:
            raise errors.ExistsError(f"instance {instance.name} already runs on this node")
        try:
            sent = msgspec.json.decode(info, type=Guest)
        except msgspec.MsgspecError as error:
            raise errors.InvalidError(f"instance {instance.name}: the migration info is not valid: {error}") from None
        await self._write(_in_state(msgspec.structs.replace(sent, sent=0, status="none"), "incoming"))
        return calls.Reception(host=address, port=PORT, secret=instance.uuid, disk_port=PORT + 1 if mirror else 0)

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to count steps."""
        guest = self._existing(instance.name)
        if guest.status in ("active", "completed"):
            return
        changed = msgspec.structs.replace(guest, sent=0, status="active")
        await self._write(_in_state(changed, "migrating" if live else "paused"))

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Count a step and return the progress, without waiting."""
        guest = self._existing(instance.name)
        if guest.status == "active":
            guest = msgspec.structs.replace(guest, sent=guest.sent + 1)
            if guest.sent == STEPS:
                guest = _in_state(msgspec.structs.replace(guest, status="completed"), "migrated")
            await self._write(guest)
        return guest.progress()

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Stop counting steps."""
        guest = self._existing(instance.name)
        if guest.status == "active":
            guest = _in_state(msgspec.structs.replace(guest, status="cancelled"), "running")
            await self._write(guest)
        return guest.progress()

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """Remove the file of an instance that has been migrated, or let it continue."""
        guest = self._guest(instance.name)
        if guest is None:
            return
        if not success:
            await self._write(_in_state(msgspec.structs.replace(guest, status="none"), "running"))
        elif guest.status != "completed":
            raise errors.WrongStateError(f"instance {instance.name} still runs on this node: it has not been migrated")
        else:
            await self.stop(instance.name, timeout=0)

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """Let an instance continue here, or remove its file; only the master knows whether it has arrived."""
        guest = self._guest(instance.name)
        if success:
            await self._write(_in_state(self._existing(instance.name), "running"))
        elif guest is not None and guest.running.state in INCOMING_STATES:
            await self.stop(instance.name, timeout=0)

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Read the instance's file."""
        guest = self._guest(name)
        return guest.running if guest else None

    async def machine(self, name: str) -> calls.Instance | None:
        """Return the instance in the file with its present devices."""
        guest = self._guest(name)
        if guest is None or guest.instance is None:
            return None
        return msgspec.structs.replace(guest.instance, nics=guest.nics, disks=guest.disks)

    async def running(self, names: Collection[str] | None = None) -> tuple[calls.RunningInstance, ...]:
        """Return the guests in all files, or in those of some names, without incoming ones."""
        files = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        recorded = (name for name in files if not name.startswith("."))
        instances = [await self.info(name) for name in recorded if names is None or name in names]
        return tuple(each for each in instances if each is not None and each.state not in INCOMING_STATES)

    async def endings(self) -> tuple[calls.Ending, ...]:
        """Return nothing: these guests do not end by themselves."""
        return ()

    async def usage(self) -> tuple[calls.Usage, ...]:
        """Return the memory of the instances that run; they use nothing else."""
        return tuple(calls.Usage(name=guest.name, memory=guest.memory * MIB) for guest in await self.running())

    async def console(self, name: str) -> calls.Console:
        """Return the message that there is no console."""
        return calls.Console(instance=name, kind="message", message="a fake instance has no console")

    async def connect_console(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Connect to the program that plays the guest's console, if there is one."""
        path = f"{self._folder}/.{name}.{kind}"
        if self._guest(name) is None:
            raise errors.WrongStateError(f"instance {name} does not run", hint=f"gnt-instance start {name}")
        if self._network is None or not self._disk.exists(path):
            raise errors.WrongStateError(f"the fake instance {name} has no {kind} console")
        try:
            return await self._network.connect_unix(path, limit=frames.PIECE_BYTES)
        except OSError as error:
            raise errors.HypervisorError(f"no program plays the {kind} console of instance {name}: {error}") from None

    async def verify(self) -> list[str]:
        """Return no faults."""
        return []

    async def memory(self) -> tuple[int, int] | None:
        """Return None."""
        return None


def _without(devices: Sequence[guest_slots.Device], removed: guest_slots.Device) -> tuple[guest_slots.Device, ...]:
    return tuple(device for device in devices if device.uuid != removed.uuid)


def _with_nics(guest: Guest, nic: calls.Nic, *replacement: calls.Nic) -> Guest:
    return msgspec.structs.replace(guest, nics=(*_without(guest.nics, nic), *replacement))


def _with_disks(guest: Guest, disk: calls.Disk, *replacement: calls.Disk) -> Guest:
    return msgspec.structs.replace(guest, disks=(*_without(guest.disks, disk), *replacement))
