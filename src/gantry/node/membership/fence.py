"""Which master a node obeys: that of the highest epoch it has heard of (explanation/state.md#epochs).

    lib/epoch       that epoch, one number; on stable storage before a call of that master is carried out
    lib/promise     the epoch that was promised last, and to whom; on stable storage before it is told
    lib/given-up    epoch and serial of the furthest copy of the state that the node gave up; there before it is gone

``daemon.server`` asks before each call of a member. Every confirmed master has a higher epoch than all before, and its
calls carry it (``rpc.client``). So a master that was replaced can start nothing on a node that its successor has
called. One that is about to be confirmed asks for a promise first: two that do so at once cannot both have that of a
majority.
"""

import asyncio

import msgspec

from gantry import errors
from gantry.node.membership import ssconf
from gantry.rpc import calls
from gantry.runtime import interface, paths


class Fence:
    """The highest epoch on one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files) -> None:
        self._disk = runtime.disk
        self._host = runtime.host
        self._path = f"{folders.lib}/epoch"
        self._promise_path = f"{folders.lib}/promise"
        self._given_up_path = f"{folders.lib}/given-up"
        self._files = files
        self._seen: int | None = None
        self._turn = asyncio.Lock()

    def epoch(self) -> int:
        """Return the highest epoch seen, 0 before the first."""
        if self._seen is None:
            text = self._disk.read(self._path).decode().strip() if self._disk.exists(self._path) else ""
            self._seen = int(text) if text.isdecimal() else 0
        return self._seen

    async def admit(self, epoch: int, *, fenced: bool) -> None:
        """Note a higher epoch; FencedError for a lower one, if the call is of the kind that is ``fenced``."""
        if epoch > self.epoch():
            async with self._turn:
                if epoch > self.epoch():
                    await self._disk.write(self._path, b"%d\n" % epoch, mode=0o444)
                    self._seen = epoch
        if fenced:
            self.check(epoch)

    def check_promise(self, epoch: int) -> None:
        """Raise PromisedError for an epoch below the one that was promised last."""
        promised = self.promised()
        if epoch < promised.epoch:
            raise errors.PromisedError(
                f"{self._host} has promised epoch {promised.epoch} to {promised.node}, and takes nothing of {epoch}",
                hint="a master that is confirmed again gets a higher one, if that node has not begun",
            )

    def check(self, epoch: int, *, at_least: int = 0) -> None:
        """Raise FencedError for an epoch below the highest seen, or below ``at_least``."""
        seen = max(self.epoch(), at_least)
        if epoch < seen:
            master = self._files.read("master_node")
            raise errors.FencedError(
                f"epoch {epoch} has passed: {self._host} obeys a master that was confirmed later, in epoch {seen}, "
                f"and takes {master or 'nobody yet'} for the master",
                hint="this master has been replaced: stop it, and give commands on the new one",
            )

    def promised(self) -> calls.Promised:
        """Return what was promised last."""
        if not self._disk.exists(self._promise_path):
            return calls.Promised()
        return msgspec.json.decode(self._disk.read(self._promise_path), type=calls.Promised)

    async def promise(self, wanted: calls.Promised) -> bool:
        """Promise an epoch that is above all that were heard of or promised; the same again is the same promise."""
        async with self._turn:
            if wanted == self.promised():
                return True
            if wanted.epoch <= max(self.epoch(), self.promised().epoch):
                return False
            await self._disk.write(self._promise_path, msgspec.json.encode(wanted), mode=0o444)
            return True

    def given_up(self) -> tuple[int, int]:
        """Return epoch and serial of the furthest copy that was given up."""
        if not self._disk.exists(self._given_up_path):
            return 0, 0
        return msgspec.json.decode(self._disk.read(self._given_up_path), type=tuple[int, int])

    async def give_up(self, epoch: int, serial: int) -> None:
        """Note that a copy is about to go: whoever wants to be master must have all that it had."""
        if (epoch, serial) > self.given_up():
            await self._disk.write(self._given_up_path, msgspec.json.encode((epoch, serial)), mode=0o444)

    async def forget(self) -> None:
        """Obey anybody again: the node has left its cluster."""
        self._seen = None
        for path in (self._path, self._promise_path, self._given_up_path):
            if self._disk.exists(path):
                await self._disk.remove(path)
