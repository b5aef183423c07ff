"""The fence against former masters: a node obeys one master (explanation/state.md#epochs).

    lib/epoch       the epoch and the UUID of its master's node (``lib_files.epoch``); on stable storage before a call
                    of that master is carried out
    lib/epoch-keys  the keys of the master candidates when the node obeyed a proven epoch last, while it obeys an
                    unproven one; written before that
    lib/promise     the last granted epoch and the node it was granted to; on stable storage before the answer
    lib/given-up    highest epoch and serial of the replicas that the node has deleted; written before the deletion

``daemon.server`` asks the fence before each call that is fenced, ``replica`` before it takes records or grants the
lease. Every confirmed master has a higher epoch than all before, and each of its calls has that epoch (``rpc.client``).
So a former master cannot start anything on a node that its successor has called. A node that wants to become master
requests grants first: two nodes at the same time cannot both have the grants of a majority. ``acknowledged`` keeps
how far the changes of these masters were acknowledged.

These grants are the proof of an epoch, which ``callers`` verifies before it calls ``certify``. A proven epoch above
the last proven one takes precedence. A master without a proof is obeyed only by a node that has not heard of the master
that it obeys for ``calls.LEASE_SECONDS``, and only until a proven epoch comes, whatever the numbers of both are. What
such a master writes does not decide about later proofs: those are compared with the keys from before. An unproven epoch
counts as proven after ``TRUST_SECONDS`` in which the master of the proven one did not call.
"""

import asyncio
import logging

import msgspec

from gantry import errors
from gantry.lib_files import epoch as epochs
from gantry.lib_files import ssconf as ssconf_file
from gantry.node.membership import acknowledged, ssconf
from gantry.rpc import calls
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

_NO_MASTER = epochs.Mastership()

TRUST_SECONDS = 3600.0
"""How long a node obeys a master without a proof before it believes that there is no other."""


class Fence:
    """The master that a node obeys, the last grant and the deleted replicas of the node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, files: ssconf.Files) -> None:
        self._disk = runtime.disk
        self._runtime = runtime
        self._clock = runtime.clock
        self._path = f"{folders.lib}/epoch"
        self._keys_path = f"{folders.lib}/epoch-keys"
        self._grant_path = f"{folders.lib}/promise"
        self._given_up_path = f"{folders.lib}/given-up"
        self._journal_end_path = folders.journal_end
        self._files = files
        self.acknowledged = acknowledged.Acknowledged(runtime, folders)
        self._stored: tuple[epochs.Mastership, epochs.Mastership] | None = None
        # The highest epoch of any call, also of one that ``admit`` does not record, and the UUID of its master's node.
        self._used = _NO_MASTER
        self._certified = _NO_MASTER
        # The last epoch of each master that was proven to this daemon, by the UUID of its node.
        self._proven_epochs: dict[str, int] = {}
        # When the node last heard of the master with this UUID; None is the one that it obeyed before it started.
        self._heard = self._clock.monotonic()
        self._heard_from: str | None = None
        # Since when nothing speaks against the master that is obeyed without a proof, as far as this daemon knows.
        self._undisputed = self._clock.monotonic()
        self._lock = asyncio.Lock()

    def _masterships(self) -> tuple[epochs.Mastership, epochs.Mastership]:
        """Return the last proven epoch, and the one that the node obeys, which is the same or unproven."""
        if self._stored is None:
            self._stored = self._read()
        return self._stored

    def _read(self) -> tuple[epochs.Mastership, epochs.Mastership]:
        lines = epochs.decode(self._disk.read(self._path)) if self._disk.exists(self._path) else []
        proven = max((line for line in lines if line.is_proven), default=_NO_MASTER)
        unproven = max((line for line in lines if not line.is_proven), default=_NO_MASTER)
        if not lines and self._disk.exists(self._path):
            unproven = epochs.Mastership(self.granted().epoch)
            logger.error("%s is damaged; epoch %d, which this node granted, counts instead", self._path, unproven.epoch)
        return proven, unproven if unproven.epoch > proven.epoch else proven

    def obeyed(self) -> epochs.Mastership:
        """Return the epoch and the master that the node obeys; epoch 0 before the first."""
        return self._masterships()[1]

    def proven(self) -> epochs.Mastership:
        """Return the last proven epoch and its master; epoch 0 before the first."""
        return self._masterships()[0]

    def proven_epoch_of(self, owner: str) -> int:
        """Return the last epoch of a node that was proven to this run of the daemon; 0 if there was none."""
        return self._proven_epochs.get(owner, 0)

    def epoch(self) -> int:
        """Return the epoch that the node obeys, 0 before the first."""
        return self.obeyed().epoch

    def unproven_epoch(self) -> int:
        """Return the epoch that the node obeys without a proof, 0 if it has seen the proof."""
        return 0 if self.obeyed().is_proven else self.epoch()

    def keys(self) -> str:
        """Return the lines of the candidates' keys from before an unproven epoch; empty if the present ones count."""
        if not self._is_unproven_above() or not self._disk.exists(self._keys_path):
            return ""
        return self._disk.read(self._keys_path).decode(errors="replace")

    def _is_unproven_above(self) -> bool:
        """Return whether the node obeys a master without a proof, and knows a proven epoch."""
        return self.proven().epoch > 0 and not self.obeyed().is_proven

    def check_trust(self, what: str) -> None:
        """Raise WrongStateError if the node obeys a master without a proof: ``what`` would shut the proven one out."""
        if self._is_unproven_above():
            raise errors.WrongStateError(
                f"{self._runtime.host} has not seen the proof of epoch {self.epoch()}, so it does not {what}",
                hint="let a majority of the master candidates confirm the master, or wait: after an hour in which no "
                "other master has called, the node believes this one",
            )

    def certify(self, epoch: int, owner: str) -> None:
        """Note that the caller has verified the proof: the epoch is that of the node with UUID ``owner``.

        ``admit`` records it, with the first fenced call: the master makes that when its first record is durable.
        """
        self._certified = max(self._certified, epochs.Mastership(epoch, owner, is_proven=True))

    def is_certified(self, epoch: int, owner: str) -> bool:
        """Return whether the proof was seen that an epoch, which has not passed, is that of a node."""
        mastership = epochs.Mastership(epoch, owner, is_proven=True)
        return mastership == self.proven() or (mastership == self._certified and epoch > self.proven().epoch)

    def loyal_seconds(self, owner: str) -> float:
        """Return for how many seconds the node obeys no other master without a proof; 0 for the one that it obeys."""
        heard_from = self.obeyed().owner if self._heard_from is None else self._heard_from
        if heard_from in ("", owner):
            return 0.0
        return max(0.0, self._heard + calls.LEASE_SECONDS - self._clock.monotonic())

    async def admit(self, epoch: int, owner: str = "") -> None:
        """Record the epoch of a master that the node obeys from now on; its UUID, ``owner``, may be unknown (empty).

        Errors are those of ``check``, ``check_step`` and ``check_owner``, and UnprovenError.
        """
        if self._is_news(epoch, owner):
            async with self._lock:
                self._judge(epoch, owner)
                if self._is_news(epoch, owner):
                    await self._record(epoch, owner)
        self._judge(epoch, owner)
        self._hear(owner)

    def _hear(self, owner: str) -> None:
        self._heard, self._heard_from = self._clock.monotonic(), owner

    def _is_news(self, epoch: int, owner: str) -> bool:
        """Return whether the node obeys another master, or its owner or its proof become known now."""
        obeyed = self.obeyed()
        if self.is_certified(epoch, owner):
            return not obeyed.is_proven or obeyed.epoch != epoch
        if self._is_trusted(epoch, owner):
            return True
        return epoch > obeyed.epoch or (epoch == obeyed.epoch > 0 and owner > obeyed.owner == "")

    def _is_trusted(self, epoch: int, owner: str) -> bool:
        """Return whether a master has been obeyed without a proof for so long that it counts as proven."""
        is_obeyed = (epoch, owner) == self.obeyed()[:2] and self._is_unproven_above()
        return is_obeyed and self._undisputed + TRUST_SECONDS <= self._clock.monotonic()

    async def _record(self, epoch: int, owner: str) -> None:
        proven = self.proven()
        is_proven = self.is_certified(epoch, owner) or self._is_trusted(epoch, owner)
        obeyed = epochs.Mastership(epoch, owner, is_proven=is_proven)
        if not is_proven and proven.epoch and self.obeyed().is_proven:
            keys = self._files.read(ssconf_file.MASTERS)
            await self._disk.write(self._keys_path, keys.encode(), mode=0o444)
            self._undisputed = self._clock.monotonic()
        lines = [obeyed] if obeyed.is_proven or not proven.epoch else [proven, obeyed]
        await self._disk.write(self._path, epochs.encode(lines), mode=0o444)
        self._stored = obeyed if obeyed.is_proven else proven, obeyed
        if obeyed.is_proven:
            self._proven_epochs[owner] = epoch
        if not obeyed.is_proven:
            level = logging.WARNING if proven.epoch else logging.INFO  # a node that joins sees the proof a bit later
            logger.log(level, "epoch %d of the node with UUID %s is obeyed without a proof", epoch, owner)

    def _judge(self, epoch: int, owner: str) -> None:
        """Raise an error unless the node obeys this master, or would."""
        obeyed = self.obeyed()
        if self.is_certified(epoch, owner) and (epoch > self.proven().epoch or obeyed.is_proven):
            return
        if epoch == self.proven().epoch:
            self._undisputed = self._clock.monotonic()
        self.check(epoch)
        self.check_owner(epoch, owner)
        if epoch == obeyed.epoch or not self._disk.exists(self._path):
            return
        self.check_step(epoch)
        seconds = self.loyal_seconds(owner)
        if seconds > 0 and owner:
            raise errors.UnprovenError(
                f"{self._runtime.host} has not seen the proof of epoch {epoch}, and has heard less than "
                f"{calls.LEASE_SECONDS:g} s ago from the master that it obeys, of epoch {obeyed.epoch}",
                hint="a master that a majority of the candidates has confirmed has the proof; without a vote, stop the "
                "former master",
            )

    def check_owner(self, epoch: int, owner: str) -> None:
        """Raise NotGrantedError for an epoch that belongs to another node than that with UUID ``owner``.

        An epoch without a proof belongs to the first node that uses it. Only ``admit`` writes that to the disk: its
        callers are masters whose first record is durable.
        """
        if not (epoch and owner) or self.is_certified(epoch, owner):
            return
        # The highest that was used may be above the one on the disk, which the fence lets pass until then.
        for known in (*self._masterships(), self._used, self._certified):
            if epoch == known.epoch and known.owner not in ("", owner):
                raise errors.NotGrantedError(
                    f"epoch {epoch} belongs to the node with UUID {known.owner}, not to that with UUID {owner}",
                    hint="a master that is confirmed again gets an epoch of its own",
                )

    def check_use(self, epoch: int, owner: str, *, at_least: int) -> None:
        """Raise an error, as ``admit`` does, unless a master may bring its records, and note that it has.

        ``at_least`` is the epoch of records that the node has. An epoch in use belongs to its master, but is not
        recorded: the master may never have a durable record.
        """
        is_certified = self.is_certified(epoch, owner)
        self.check(epoch, at_least=at_least)
        self.check_grant(epoch)
        if not is_certified:
            self.check_step(epoch, at_least=at_least)
            self._judge(epoch, owner)
        if epoch and owner:
            used = epochs.Mastership(epoch, owner)
            self._used = used if is_certified else max(self._used, used)
        self._hear(owner)

    def check_step(self, epoch: int, *, at_least: int = 0) -> None:
        """Refuse an epoch that no series of masters can have reached since the last that the node knows.

        ``at_least`` is an epoch that the node knows from another file. A node that knows no epoch, because it is new or
        the file was removed, takes the first.
        """
        if not self._disk.exists(self._path):
            return
        most = self._most(at_least)
        if epoch > most:
            raise errors.ProtocolError(
                f"epoch {epoch} is too far above epoch {most - calls.EPOCH_STEP}, "
                f"the highest that {self._runtime.host} knows",
                hint=f"if the node was away for so long, remove {self._path} there and start gantry-noded again",
            )

    def _most(self, at_least: int = 0) -> int:
        """Return the highest epoch that a series of masters can have reached."""
        return max(self.proven().epoch or self.epoch(), self.granted().epoch, at_least) + calls.EPOCH_STEP

    def check_grant(self, epoch: int) -> None:
        """Raise NotGrantedError for an epoch below the last granted epoch."""
        granted = self.granted()
        if epoch < granted.epoch:
            raise errors.NotGrantedError(
                f"{self._runtime.host} has granted epoch {granted.epoch} to {granted.node}, and refuses epoch {epoch}",
                hint=f"a master that is confirmed again gets a higher epoch, unless {granted.node} is master by then",
            )

    def check(self, epoch: int, *, at_least: int = 0) -> None:
        """Raise FencedError for an epoch below the one that the node obeys, or below ``at_least``.

        NotGrantedError for the last proven epoch of a node that obeys a later one without a proof: the master of the
        proven one may have been replaced without a vote, or not at all, so it has to be confirmed again.
        """
        proven, obeyed = self._masterships()
        if epoch == proven.epoch > 0 and not obeyed.is_proven and epoch >= at_least:
            raise errors.NotGrantedError(
                f"{self._runtime.host} obeys a master of epoch {obeyed.epoch}, of which it has seen no proof, "
                f"and refuses epoch {epoch}",
                hint="a master that is confirmed again gets a higher epoch, which the node then obeys",
            )
        known = max(proven.epoch if self._is_proof_of(epoch) else obeyed.epoch, at_least)
        if epoch < known:
            master = self._files.read("master_node")
            raise errors.FencedError(
                f"epoch {epoch} has passed: {self._runtime.host} obeys a master that was confirmed later, "
                f"in epoch {known}, and its ssconf files name {master or 'no node'} as the master",
                hint="this master has been replaced: stop it, and run commands on the new master",
            )

    def _is_proof_of(self, epoch: int) -> bool:
        """Return whether the proof of an epoch that has not been recorded was seen."""
        return self._certified.epoch == epoch > self.proven().epoch

    def check_successor(self, epoch: int, owner: str) -> None:
        """Raise FencedError if another node than that with UUID ``owner`` has become the master since ``epoch``."""
        obeyed = self.obeyed()
        if obeyed.owner != owner and (epoch != obeyed.epoch or (obeyed.owner and owner)):
            raise errors.FencedError(
                f"epoch {epoch} has passed: {self._runtime.host} obeys another master now, of epoch {obeyed.epoch}",
                hint="this master has been replaced: stop it, and run commands on the new master",
            )

    def granted(self) -> calls.GrantedEpoch:
        """Return the last grant."""
        if not self._disk.exists(self._grant_path):
            return calls.GrantedEpoch()
        try:
            return epochs.decode_grant(self._disk.read(self._grant_path))
        except ValueError as error:
            stored = epochs.decode(self._disk.read(self._path)) if self._disk.exists(self._path) else []
            epoch = max(stored, default=_NO_MASTER).epoch
            logger.error("%s is damaged: %s; epoch %d counts instead", self._grant_path, error, epoch)
            return calls.GrantedEpoch(epoch=epoch, node="a node that is not known any more")

    async def grant(self, request: calls.GrantedEpoch) -> bool:
        """Grant an epoch above all proven and granted ones and return True; also for a repetition of a grant.

        The last grant can be repeated, and that of the proven epoch which the node obeys. Of an epoch that is too far
        above, the node grants what it may, so that a repetition comes nearer to it. Return False for any other epoch.
        """
        async with self._lock:
            obeyed = epochs.Mastership(request.epoch, request.uuid, is_proven=True)
            if request == self.granted() or (request.uuid and obeyed == self.obeyed()):
                return True
            if request.epoch <= max(self.proven().epoch, self.granted().epoch):
                return False
            is_new = not self._disk.exists(self._path)
            granted = request if is_new else msgspec.structs.replace(request, epoch=min(request.epoch, self._most()))
            await self._disk.write(self._grant_path, epochs.encode_grant(granted), mode=0o444)
            return granted == request

    def given_up(self) -> tuple[int, int]:
        """Return the highest epoch and serial of the replicas that were deleted; StorageError if that cannot be read.

        A node that does not know what it gave up has no vote: its answer would hide records that it acknowledged.
        """
        if not self._disk.exists(self._given_up_path):
            return 0, 0
        try:
            return epochs.decode_given_up(self._disk.read(self._given_up_path))
        except ValueError as error:
            raise errors.StorageError(
                f"{self._given_up_path} on {self._runtime.host} is damaged: {error}",
                hint="the node has no vote until the file is removed: do that when the other candidates have all data",
            ) from None

    async def give_up(self, epoch: int, serial: int) -> None:
        """Record that a replica is about to be deleted: a new master must have all of its records."""
        if (epoch, serial) > self.given_up():
            await self._disk.write(self._given_up_path, epochs.encode_given_up(epoch, serial), mode=0o444)

    async def forget(self) -> None:
        """Delete what the node knows of the past, because it leaves its cluster."""
        self._stored, self._used, self._certified, self._heard_from = None, _NO_MASTER, _NO_MASTER, None
        for path in (self._path, self._keys_path, self._grant_path, self._given_up_path, self._journal_end_path):
            if self._disk.exists(path):
                await self._disk.remove(path)
        await self.acknowledged.forget()
