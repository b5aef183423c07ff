"""Who may call a node: the master candidates, by the keys that the cluster records.

    lib/ssconf/ssconf_master_candidates_certs       a line for each key of a master candidate: UUID=digest
    lib/ssconf/ssconf_revoked_certificates          serial numbers of nodes' certificates that were replaced

``daemon.server`` asks for every call. A certificate of the cluster's authority is not enough: its key must be one of
those in the file, so what a demoted or removed node has is worthless as soon as the master has written the file, even
if that node kept a copy of the authority's key. The authority counts that the node trusts at the call: one that was
replaced after the handshake does not. Until the file is there, the keys count that came with the node's
certificate. A node that joined an older version has neither: it accepts each certificate of a master.

A node that was away while all of this changed may not know the key of a new master. A candidate that it knows vouches
for the new list (``calls.Vouch``), and the master brings that (``calls.MastersStore``).
"""

from collections.abc import Mapping

from gantry import errors, security
from gantry.node.membership import enrollment, fence, ssconf
from gantry.rpc import calls

MASTERS = "master_candidates_certs"
REVOKED = "revoked_certificates"


class Callers:
    """The clients that a node obeys."""

    def __init__(self, files: ssconf.Files, identity: enrollment.Enrolment, barrier: fence.Fence) -> None:
        self._files = files
        self._identity = identity
        self._barrier = barrier

    def _known(self) -> Mapping[str, str]:
        if lines := self._files.read(MASTERS):
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
        node = known.get(security.key_of(certificate))
        if node is None or security.serial_of(certificate) in self._files.read(REVOKED).splitlines():
            raise errors.UnknownCallerError(
                "the caller's certificate is not one of a master candidate of this cluster that this node knows",
                hint="a node that was removed or demoted cannot call others; if the master itself is refused, copy "
                f"ssconf_{MASTERS} from another node",
            )
        return node

    def _of_master(self, certificate: bytes | None) -> bytes:
        """Return a caller's certificate; ProtocolError unless it is a master's, of an authority that is trusted now."""
        if certificate is None or security.common_name(certificate) != security.MASTER:
            raise errors.ProtocolError("only the cluster's master may call this node")
        if not security.is_issued(certificate, self._identity.authority()):
            raise errors.ProtocolError(
                "the caller's certificate is not of an authority that this node trusts",
                hint="the authority was replaced: connect with a certificate of the present one",
            )
        return certificate

    async def vouch(self, call: calls.Vouch) -> calls.Voucher:
        """Sign the keys of the master candidates for a node that does not know the master."""
        own, epoch = self._identity.pair(earlier=call.earlier), self._barrier.epoch()
        signature = security.sign(own.key, _statement(epoch, call.uuid, call.masters))
        return calls.Voucher(epoch=epoch, certificate=own.certificate.decode(), signature=signature)

    async def learn(self, call: calls.MastersStore, certificate: bytes | None) -> None:
        """Take new keys of master candidates that a candidate vouches for; ProtocolError if it may not."""
        certificate = self._of_master(certificate)
        member = self._identity.member()
        assert member is not None
        try:
            voucher, signer_certificate = call.voucher, call.voucher.certificate.encode()
            signer = security.key_of(security.der_of(signer_certificate))
            statement = _statement(voucher.epoch, member.uuid, call.masters)
            is_signed = security.is_signed(signer_certificate, statement, voucher.signature)
        except ValueError as error:
            raise errors.ProtocolError(f"the statement about the master candidates cannot be read: {error}") from None
        if signer not in self._known() or not is_signed:
            raise errors.ProtocolError("no master candidate that this node knows vouches for the caller")
        if security.key_of(certificate) not in calls.nodes_by_key("\n".join(call.masters)):
            raise errors.ProtocolError("the caller is not among the master candidates that it names")
        self._barrier.check(voucher.epoch)
        await self._files.write({MASTERS: "\n".join(sorted(call.masters))})


def _statement(epoch: int, uuid: str, masters: tuple[str, ...]) -> bytes:
    return "\n".join(("gantry master candidates", str(epoch), uuid, *sorted(masters))).encode()
