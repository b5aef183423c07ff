"""The fence against former masters: a node obeys the master with the highest epoch seen (explanation/state.md#epochs).

    lib/epoch       that epoch and the UUID of its master's node (``rpc.calls.epochs``); on stable storage before a call
                    of that master is carried out
    lib/promise     the last promised epoch and the node it was promised to; on stable storage before the answer
    lib/given-up    highest epoch and serial of the replicas that the node has deleted; written before the deletion

``daemon.server`` asks the fence before each call that is fenced, ``replica`` before it takes records or grants the
lease. Every confirmed master has a higher epoch than all before, and each of its calls has that epoch (``rpc.client``).
So a former master cannot start anything on a node that its successor has called. A node that wants to become master
requests promises first: two nodes at the same time cannot both have the promises of a majority. ``acknowledged`` keeps
how far the changes of these masters were acknowledged.
"""

import asyncio
import logging

import msgspec

from gantry import errors
from gantry.node.membership import acknowledged, ssconf
from gantry.rpc import calls
from gantry.rpc.calls import epochs
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)


class Fence:
    """The highest epoch, the last promise and the deleted replicas of a node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files) -> None:
        self._disk = runtime.disk
        self._host = runtime.host
        self._path = f"{folders.lib}/epoch"
        self._promise_path = f"{folders.lib}/promise"
        self._given_up_path = f"{folders.lib}/given-up"
        self._journal_end_path = folders.journal_end
        self._files = files
        self.acknowledged = acknowledged.Acknowledged(runtime, folders)
        self._seen: tuple[int, str] | None = None
        # The highest epoch of any call, also of one that ``admit`` does not record, and the UUID of its master's node.
        self._used = (0, "")
        self._lock = asyncio.Lock()

    def epoch(self) -> int:
        """Return the highest epoch seen, 0 before the first."""
        return self._newest()[0]

    def _newest(self) -> tuple[int, str]:
        """Return the highest epoch seen, and the UUID of its master's node, empty if that is not known."""
        if self._seen is None:
            self._seen = self._read_epoch()
        return self._seen

    def _read_epoch(self) -> tuple[int, str]:
        stored = self._stored_epochs()
        if stored:
            return max(stored)
        promised = self.promised().epoch
        if self._disk.exists(self._path):
            logger.error("%s is damaged; epoch %d, which this node promised, counts instead", self._path, promised)
        return promised, ""

    def _stored_epochs(self) -> list[tuple[int, str]]:
        """Return what each line of the file says that can be read."""
        return epochs.decode(self._disk.read(self._path)) if self._disk.exists(self._path) else []

    async def admit(self, epoch: int, owner: str = "") -> None:
        """Record a higher epoch, which then belongs to the node with UUID ``owner``; it may be unknown (empty).

        Errors are those of ``check``, ``check_step`` and ``check_owner``.
        """
        if self._is_news(epoch, owner):
            async with self._lock:
                self.check_step(epoch)
                self.check_owner(epoch, owner)
                if self._is_news(epoch, owner):
                    await self._disk.write(self._path, epochs.encode(epoch, owner), mode=0o444)
                    self._seen = epoch, owner
        self.check(epoch)
        self.check_owner(epoch, owner)

    def _is_news(self, epoch: int, owner: str) -> bool:
        """Return whether an epoch is higher than all seen, or the highest whose owner becomes known now."""
        newest, known_owner = self._newest()
        return epoch > newest or (epoch == newest > 0 and owner > known_owner == "")

    def check_owner(self, epoch: int, owner: str) -> None:
        """Raise PromisedError for an epoch that belongs to another node than that with UUID ``owner``.

        An epoch above all that were seen belongs to the first node that uses it. Only ``admit`` writes that to the
        disk: its callers are masters whose first record is durable.
        """
        if not (epoch and owner):
            return
        # The highest that was used may be above the one on the disk, which the fence lets pass until then.
        for known_epoch, known_owner in (self._newest(), self._used):
            if epoch == known_epoch and known_owner not in ("", owner):
                raise errors.PromisedError(
                    f"epoch {epoch} belongs to the node with UUID {known_owner}, not to that with UUID {owner}",
                    hint="a master that is confirmed again gets an epoch of its own",
                )
        self._used = max(self._used, self._newest(), (epoch, owner))

    def is_master(self, epoch: int, owner: str) -> bool:
        """Return whether a call is one of the master that this node obeys, by its epoch and its node's UUID."""
        newest, known_owner = self._newest()
        return epoch == newest > 0 and known_owner in ("", owner)

    def check_step(self, epoch: int, *, at_least: int = 0) -> None:
        """Refuse an epoch that no series of confirmed masters can have reached: nobody could follow such a master.

        ``at_least`` is an epoch that the node knows from another file. A node that knows no epoch, because it is new or
        the file was removed, takes the first.
        """
        if not self._disk.exists(self._path):
            return
        known = max(self.epoch(), self.promised().epoch, at_least)
        if epoch > known + calls.EPOCH_STEP:
            raise errors.ProtocolError(
                f"epoch {epoch} is too far above epoch {known}, the highest that {self._host} knows",
                hint=f"if the node was away for so long, remove {self._path} there and start gantry-noded again",
            )

    def check_promise(self, epoch: int) -> None:
        """Raise PromisedError for an epoch below the last promised epoch."""
        promised = self.promised()
        if epoch < promised.epoch:
            raise errors.PromisedError(
                f"{self._host} has promised epoch {promised.epoch} to {promised.node}, and refuses epoch {epoch}",
                hint=f"a master that is confirmed again gets a higher epoch, unless {promised.node} is master by then",
            )

    def check(self, epoch: int, *, at_least: int = 0) -> None:
        """Raise FencedError for an epoch below the highest seen, or below ``at_least``."""
        seen = max(self.epoch(), at_least)
        if epoch < seen:
            master = self._files.read("master_node")
            raise errors.FencedError(
                f"epoch {epoch} has passed: {self._host} obeys a master that was confirmed later, in epoch {seen}, "
                f"and its ssconf files name {master or 'no node'} as the master",
                hint="this master has been replaced: stop it, and run commands on the new master",
            )

    def check_successor(self, epoch: int, owner: str) -> None:
        """Raise FencedError if another node than that with UUID ``owner`` has become the master since ``epoch``."""
        newest, newest_owner = self._newest()
        if epoch < newest and newest_owner != owner:
            self.check(epoch)

    def promised(self) -> calls.Promised:
        """Return the last promise."""
        if not self._disk.exists(self._promise_path):
            return calls.Promised()
        try:
            return msgspec.json.decode(self._disk.read(self._promise_path), type=calls.Promised)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            epoch, _ = max(self._stored_epochs(), default=(0, ""))
            logger.error("%s is damaged: %s; epoch %d counts instead", self._promise_path, error, epoch)
            return calls.Promised(epoch=epoch, node="a node that is not known any more")

    async def promise(self, request: calls.Promised) -> bool:
        """Promise an epoch above all seen and promised ones and return True; also for a repetition of the last promise.

        Return False for any other epoch.
        """
        async with self._lock:
            if request == self.promised():
                return True
            self.check_step(request.epoch)
            if request.epoch <= max(self.epoch(), self.promised().epoch):
                return False
            await self._disk.write(self._promise_path, msgspec.json.encode(request), mode=0o444)
            return True

    def given_up(self) -> tuple[int, int]:
        """Return the highest epoch and serial of the replicas that were deleted; StorageError if that cannot be read.

        A node that does not know what it gave up has no vote: its answer would hide records that it acknowledged.
        """
        if not self._disk.exists(self._given_up_path):
            return 0, 0
        try:
            return msgspec.json.decode(self._disk.read(self._given_up_path), type=tuple[calls.Epoch, calls.Count])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.StorageError(
                f"{self._given_up_path} on {self._host} is damaged: {error}",
                hint="the node has no vote until the file is removed: do that when the other candidates have all data",
            ) from None

    async def give_up(self, epoch: int, serial: int) -> None:
        """Record that a replica is about to be deleted: a new master must have all of its records."""
        if (epoch, serial) > self.given_up():
            await self._disk.write(self._given_up_path, msgspec.json.encode((epoch, serial)), mode=0o444)

    async def forget(self) -> None:
        """Delete what the node knows of the past, because it leaves its cluster."""
        self._seen, self._used = None, (0, "")
        for path in (self._path, self._promise_path, self._given_up_path, self._journal_end_path):
            if self._disk.exists(path):
                await self._disk.remove(path)
        await self.acknowledged.forget()
