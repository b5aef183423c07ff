"""The calls that move a running instance to another node.

Life of a migration, as the master drives it; the guest's processors run in one place at any time:

1. ``InstanceMigrationInfo`` at the source: the machine as it runs, with what was plugged in since its start.
2. ``InstanceAccept`` at the target: the same machine is built there and listens; its processors stand still.
3. ``InstanceMigrate`` at the source begins, ``InstanceMigrationStatus`` returns its progress, ``InstanceMigrateCancel``
   cancels the migration.
4. ``completed``: ``InstanceFinalizeMigrationDst`` lets the guest continue at the target, then
   ``InstanceFinalizeMigrationSrc`` clears the source. ``failed`` or ``cancelled``: first the target is cleared, then
   the guest continues at the source, if it does not do so anyway. An unreachable target is not an obstacle:
   its guest starts only on request.

An interrupted migration is found by ``InstanceInfo`` on both nodes (``RunningInstance.state``) and ended by the same
two calls. Sizes are bytes here.
"""

from typing import ClassVar

from gantry.rpc.calls.base import FAST, SLOW, Call, Message
from gantry.rpc.calls.instance import Instance
from gantry.rpc.calls.texts import Content, Host, Token


class InstanceMigrationInfo(Call[str], frozen=True):
    """Describe a running instance for the target of its migration; only the hypervisor interprets the text.

    Raises HypervisorError when it does not run, WrongStateError when it cannot be migrated.
    """

    READS: ClassVar[bool] = True
    instance: Instance


class Reception(Message, frozen=True):
    """Where a target waits for a guest: its address and port, and the secret of this one migration.

    ``disk_port`` is where it takes copies of disks, 0 where the disks are there already.
    """

    host: Host
    port: int
    secret: Token
    disk_port: int = 0


class InstanceAccept(Call[Reception], frozen=True):
    """Prepare a node for a migrating instance, whose disks are active there; it listens at ``address``.

    ``info`` is the answer of ``InstanceMigrationInfo``. With ``mirror`` the disks of the target are empty, and get a
    copy of what the source's hold. Repeating it starts over with another secret. Raises HypervisorError, ExistsError
    when the instance runs there; then nothing of the preparation remains.
    """

    LIMIT: ClassVar[float] = FAST
    instance: Instance
    info: Content
    address: Host
    mirror: bool = False


class InstanceMigrate(Call[None], frozen=True):
    """Begin to send a running instance to a target; with ``live`` it runs on meanwhile, without it stands still.

    Its memory is sent as fast as ``migration_bandwidth`` (MiB/s) says, and it is stopped when the remaining memory
    takes no longer than ``migration_downtime`` (milliseconds). A migration that is under way already is not an error.
    """

    LIMIT: ClassVar[float] = FAST
    instance: Instance
    reception: Reception
    live: bool = True


class MigrationStatus(Message, frozen=True):
    """The progress of a migration.

    ``status`` is ``none``, ``mirroring`` (disks are copied), ``active``, ``completed``, ``failed`` or ``cancelled``;
    the last three and ``none`` are final. ``transferred`` of ``total`` bytes are sent, ``remaining`` are to be sent,
    and the guest changes ``dirty_rate`` bytes a second. ``downtime`` is the expected pause of the guest, after the
    migration the actual pause, in milliseconds; ``seconds`` is the total time. ``reason`` is the cause of a failure.
    """

    status: str
    transferred: int = 0
    total: int = 0
    remaining: int = 0
    dirty_rate: int = 0
    downtime: int = 0
    seconds: float = 0.0
    reason: str = ""

    @property
    def final(self) -> bool:
        """Return whether the status will not change without another call."""
        return self.status in ("none", "completed", "failed", "cancelled")


class InstanceMigrationStatus(Call[MigrationStatus], frozen=True):
    """Return the progress of a migration, at the source, once it is final or ``wait`` seconds have passed."""

    READS: ClassVar[bool] = True
    instance: Instance
    wait: float = 0.0


class InstanceMigrateCancel(Call[MigrationStatus], frozen=True):
    """Cancel a migration, at the source; the answer is final, ``completed`` when it was too late.

    Afterwards the guest runs at the source, unless it was completed.
    """

    instance: Instance


class InstanceFinalizeMigrationSrc(Call[None], frozen=True):
    """End a migration at the source: with ``success`` the source is cleared, else the guest resumes there.

    Raises WrongStateError for ``success`` while the guest has not left.
    """

    LIMIT: ClassVar[float] = FAST
    instance: Instance
    success: bool


class InstanceFinalizeMigrationDst(Call[None], frozen=True):
    """End a migration at the target: with ``success`` the guest resumes there, else the target is cleared.

    Raises WrongStateError for ``success`` when the guest has not arrived. A guest that runs there is left alone.
    """

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    success: bool
