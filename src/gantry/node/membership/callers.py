"""Who may call a node: the master candidates, by the keys that the cluster records.

    lib/ssconf/ssconf_master_candidates_certs       a line for each key of a master candidate: UUID=digest
    lib/ssconf/ssconf_revoked_certificates          serial numbers of nodes' certificates that were replaced

``daemon.server`` asks for every call. A certificate of the cluster's authority is not enough: its key must be one of
those in the file, so what a demoted or removed node has is worthless as soon as the master has written the file, even
if that node kept a copy of the authority's key. The authority counts that the node trusts at the call: one that was
replaced after the handshake does not. Until the file is there, the keys count that came with the node's
certificate. A node that joined an older version has neither: it accepts each certificate of a master.

A node that was away while all of this changed may not know the key of a new master. A majority of the candidates that
it knows vouches for the new list (``calls.Vouch``), and the master brings that (``calls.MastersStore``). The signatures
of such a majority are also what proves the epoch of a master (``calls.ProveEpoch``).
"""

import logging
from collections.abc import Mapping, Sequence

from gantry import errors, security
from gantry.lib_files import ssconf as ssconf_file
from gantry.node.membership import enrollment, fence, ssconf
from gantry.rpc import calls

logger = logging.getLogger(__name__)

REVOKED = "revoked_certificates"


class Callers:
    """The clients that a node obeys."""

    def __init__(self, files: ssconf.Files, identity: enrollment.Enrolment, barrier: fence.Fence) -> None:
        self._files = files
        self._identity = identity
        self._barrier = barrier

    def _known(self) -> Mapping[str, str]:
        if lines := self._files.read(ssconf_file.MASTERS):
            return calls.nodes_by_key(lines)
        member = self._identity.member()
        return calls.nodes_by_key("\n".join(member.masters) if member else "")

    def identify(self, certificate: bytes | None) -> str:
        """Return the UUID of the calling master candidate, "" if this node knows no keys yet.

        UnknownCallerError if the certificate, in DER, is not that of a master candidate.
        """
        certificate = self._of_master(certificate)
        known = self._known()
        if not known:
            return ""
        master = self._barrier.obeyed()
        node = known.get(security.key_of(certificate))
        if node is None or security.serial_of(certificate) in self._revoked():
            raise errors.UnknownCallerError(
                "the caller's certificate is not one of a master candidate of this cluster that this node knows",
                hint="a node that was removed or demoted cannot call others; if the master itself is refused, copy "
                f"ssconf_{ssconf_file.MASTERS} from another node",
                obeyed=(master.epoch, master.owner),
            )
        return node

    def _of_master(self, certificate: bytes | None) -> bytes:
        """Return a caller's certificate; ProtocolError unless it is a master's, of an authority that is trusted now."""
        if certificate is None or security.common_name(certificate) != security.MASTER:
            raise errors.ProtocolError("only the cluster's master may call this node")
        if not security.is_issued(certificate, self._identity.authority()):
            raise errors.ProtocolError(
                "the caller's certificate is not of an authority that this node trusts",
                hint="the authority was replaced: connect with a certificate of the present one; a node that was away "
                "meanwhile is added again (how-to/certificates.md)",
            )
        return certificate

    def grant(self, epoch: int, uuid: str) -> calls.Grant:
        """Return the signed grant of an epoch to the node with a UUID."""
        own = self._identity.pair()
        signature = security.sign(own.key, calls.statement_of_epoch(epoch, uuid))
        return calls.Grant(certificate=own.certificate.decode(), signature=signature)

    async def prove(self, call: calls.ProveEpoch, caller: str) -> None:
        """Verify that a majority of the candidates has granted an epoch to the caller; UnprovenError if not."""
        if self._barrier.is_certified(call.epoch, caller):
            return
        statement = calls.statement_of_epoch(call.epoch, caller)
        self._check_majority(f"granted epoch {call.epoch} to the caller", statement, call.grants)
        self._barrier.certify(call.epoch, caller)

    def _check_majority(
        self, what: str, statement: bytes, words: Sequence[calls.Grant | calls.Voucher], *, own: str = ""
    ) -> None:
        """Raise UnprovenError unless a majority of the master candidates that this node knows has signed.

        ``own`` is the UUID of this node if it agrees itself; that counts if it is one of these candidates.
        """
        # What a master without a proof has written since does not count.
        keys = self._barrier.keys()
        known = calls.nodes_by_key(keys) if keys else self._known()
        revoked = () if keys else self._revoked()
        signers = {known[key] for word in words if (key := _signer(statement, word, revoked)) in known}
        signers |= {own} & set(known.values())
        count = len(set(known.values()))
        if 2 * len(signers) <= count:
            raise errors.UnprovenError(
                f"{len(signers)} of the {count} master candidates that this node knows have {what}, "
                f"{count // 2 + 1} are needed",
                hint=f"if most of these nodes are gone for good, copy ssconf_{ssconf_file.MASTERS} from another node",
            )

    def _revoked(self) -> Sequence[str]:
        """Return the serial numbers of certificates that were replaced."""
        return self._files.read(REVOKED).splitlines()

    async def vouch(self, call: calls.Vouch, caller: str) -> calls.Voucher:
        """Sign the keys of the master candidates for a node that does not know the master; WrongStateError if not.

        The list must be the one that this node has from the master, and the epoch of the master proven.
        """
        proven = self._barrier.proven()
        if not caller or proven.owner != caller or self._barrier.obeyed() != proven:
            raise errors.WrongStateError(
                "this node vouches only for a master whose epoch a majority of the candidates has granted"
            )
        if frozenset(call.masters) != frozenset(self._files.read(ssconf_file.MASTERS).splitlines()):
            raise errors.WrongStateError(
                "the list of the master candidates' keys is not the one that this node has from the master"
            )
        own = self._identity.pair(earlier=call.earlier)
        signature = security.sign(own.key, _statement(proven.epoch, call.uuid, call.masters))
        return calls.Voucher(epoch=proven.epoch, certificate=own.certificate.decode(), signature=signature)

    async def learn(self, call: calls.MastersStore, certificate: bytes | None) -> None:
        """Take new keys of master candidates that a majority of the known candidates vouches for.

        This node is one of them if it is a candidate, and agrees unless it still hears from another master.
        UnprovenError if it does not, ProtocolError if the caller is not among them, FencedError for an epoch that has
        passed: what a removed candidate had signed before is of no use to it.
        """
        certificate = self._of_master(certificate)
        member = self._identity.member()
        assert member is not None
        caller = calls.nodes_by_key("\n".join(call.masters)).get(security.key_of(certificate))
        if caller is None:
            raise errors.ProtocolError("the caller is not among the master candidates that it names")
        epoch = call.voucher.epoch
        statement = _statement(epoch, member.uuid, call.masters)
        words = [word for word in call.vouchers if word.epoch == epoch]
        # As in a vote, where it would promise the caller the epoch: of two candidates that it knows, one is another.
        is_free = epoch > self._barrier.epoch() and not self._barrier.loyal_seconds(caller)
        self._check_majority("vouched for the caller", statement, words, own=member.uuid if is_free else "")
        proven = self._barrier.proven()
        if epoch < proven.epoch or (epoch == proven.epoch and caller != proven.owner):
            raise errors.FencedError(
                f"the voucher is of epoch {epoch}, and this node obeys a master that was confirmed later, or another",
                hint="ask the candidates again for a voucher",
            )
        await self._files.write({ssconf_file.MASTERS: "\n".join(sorted(call.masters))})


def _signer(statement: bytes, word: calls.Grant | calls.Voucher, revoked: Sequence[str]) -> str:
    """Return the key that signed a statement; empty if it did not, or if its certificate was replaced."""
    try:
        certificate = word.certificate.encode()
        der = security.der_of(certificate)
        is_signed = security.is_signed(certificate, statement, word.signature)
    except ValueError as error:
        logger.info("a signature cannot be read: %s", error)
        return ""
    return security.key_of(der) if is_signed and security.serial_of(der) not in revoked else ""


def _statement(epoch: int, uuid: str, masters: tuple[str, ...]) -> bytes:
    return "\n".join(("gantry candidates of a proven epoch", str(epoch), uuid, *sorted(masters))).encode()
