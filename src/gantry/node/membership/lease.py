"""A node's part in the lease of the master: for a time, it helps no other node to become the master.

    lib/lease       the master that got the last lease, and its epoch; written when a new master gets its first one

``LeaseRenew`` grants the lease for ``calls.LEASE_SECONDS`` from its arrival, by this node's monotonic clock.
``replica.Replica.grant_epoch`` refuses other nodes for that long. A daemon that has just started does not know when the
last lease was granted, so it counts from its start. Only the holder itself, or a node that proves that the master
daemon of the holder does not run, need not wait. See explanation/replication.md#the-lease.
"""

import logging
from collections.abc import Mapping

import msgspec

from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)


class _Holder(msgspec.Struct, frozen=True):
    node: str = ""
    epoch: calls.Epoch = 0


class Lease:
    """The lease that this node granted; the caller serializes ``grant`` with the grants of epochs."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._disk = runtime.disk
        self._clock = runtime.clock
        self._path = f"{folders.lib}/lease"
        self._until = self._clock.monotonic() + calls.LEASE_SECONDS
        self._known: _Holder | None = None

    def _holder(self) -> _Holder:
        if self._known is None:
            try:
                self._known = msgspec.json.decode(self._disk.read(self._path), type=_Holder)
            except FileNotFoundError:
                self._known = _Holder()
            except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
                # Some node has the lease: nobody may have the role before it has ended.
                logger.error("%s cannot be read: %s; the lease of an unknown node counts instead", self._path, error)
                self._known = _Holder("a node that cannot be read", 10**calls.EPOCH_DIGITS - 1)
        return self._known

    async def grant(self, node: str, epoch: int) -> None:
        """Grant the lease to a master that the node obeys, from now on."""
        holder = _Holder(node, epoch)
        if holder != self._holder():
            await self._disk.write(self._path, msgspec.json.encode(holder), mode=0o444)
            self._known = holder
        self._until = self._clock.monotonic() + calls.LEASE_SECONDS

    def status(self) -> calls.LeaseState:
        """Return the holder, and for how long it may still have the lease."""
        holder = self._holder()
        seconds = max(0.0, self._until - self._clock.monotonic()) if holder.node else 0.0
        return calls.LeaseState(node=holder.node, epoch=holder.epoch, seconds=seconds)

    def seconds_to_wait(self, node: str, *, stopped: Mapping[str, int]) -> float:
        """Return for how long ``node`` may not have the role; ``stopped`` as in ``calls.GrantEpoch``."""
        return self.status().seconds_to_wait(node, stopped=stopped)

    async def forget(self) -> None:
        """Delete the record of the lease, because the node leaves its cluster."""
        self._known = None
        if self._disk.exists(self._path):
            await self._disk.remove(self._path)
