"""TLS contexts for every connection of a cluster, and for those to servers outside.

A node that has not joined presents a self-signed certificate, which is in its join token: the master trusts exactly
that certificate. Between members of a cluster each side presents a certificate of the cluster's authority, and besides
checks that the other side's key is one that the cluster records.

OpenSSL can add an authority to a context, but cannot remove one. So a member whose authorities or certificate change
makes another context, and uses it from its next connection on.
"""

import ssl
from collections.abc import Callable, Collection

from gantry.security.certificates import key_of

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""``X509_V_FLAG_NO_CHECK_TIME`` of OpenSSL, which Python does not name."""


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


Keys = Callable[[str], Collection[str] | None]
"""Returns the digests of the keys that a server at an address may have (``certificates.key_of``); None for any key."""


class MemberContext(ssl.SSLContext):
    """A client's context in a cluster: it trusts the authority, and of its certificates those for a recorded key.

    ``keys`` may return None for a server whose key is not recorded: then the word of the authority counts.
    """

    keys: Keys

    def check(self, peer: ssl.SSLObject | ssl.SSLSocket) -> None:
        """Raise SSLCertVerificationError unless a server has one of the keys that are expected at its address."""
        host, certificate = peer.server_hostname or "", peer.getpeercert(True)
        expected = self.keys(host)
        if expected is not None and (certificate is None or key_of(certificate) not in expected):
            raise ssl.SSLCertVerificationError(
                f"certificate verify failed: the key of the server at {host} is not the one that the cluster recorded"
            )


class _Connection(ssl.SSLObject):
    """A connection of an event loop with a ``MemberContext``."""

    def do_handshake(self) -> None:
        """Shake hands, and check the server's key."""
        super().do_handshake()
        assert isinstance(self.context, MemberContext)
        self.context.check(self)


class _Socket(ssl.SSLSocket):
    """A blocking connection with a ``MemberContext``."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands, and check the server's key."""
        super().do_handshake(block)
        assert isinstance(self.context, MemberContext)
        self.context.check(self)


MemberContext.sslobject_class = _Connection
MemberContext.sslsocket_class = _Socket


class FirstKeyContext(MemberContext):
    """The context of a machine that joins: each connection must be to the key of the first, which ``key`` returns then.

    Certificates prove nothing to that machine; the key is what the cluster proves to own (``invitation``).
    """

    _first = ""

    def check(self, peer: ssl.SSLObject | ssl.SSLSocket) -> None:
        """Raise SSLCertVerificationError unless a server has the key of the first connection."""
        certificate = peer.getpeercert(True)
        key = key_of(certificate) if certificate else ""
        self._first = self._first or key
        if not key or key != self._first:
            raise ssl.SSLCertVerificationError("certificate verify failed: the server has another key than before")

    def key(self) -> str:
        """Return the digest of the key of the first connection; empty before it."""
        return self._first


def first_key_context() -> FirstKeyContext:
    """Return a context that accepts any key, the same for all connections."""
    context = FirstKeyContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def bootstrap_server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a node that has not joined, from two file names; it requests no client certificate."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def renew_server_context(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Present another certificate from the next connection on, from two file names; raises OSError.

    The files are tried in a new context first: a pair that is only half written would damage the context in use.
    """
    bootstrap_server_context(certificate, key)
    context.load_cert_chain(certificate, key)


def node_server_context(certificate: str, key: str, *, authority: bytes) -> ssl.SSLContext:
    """Return the context of a member's server, for clients with a certificate of these authorities, or without one.

    ``certificate`` and ``key`` are file names. A client without a certificate may only join; the node daemon refuses
    its other calls, and those of clients that are not the master.
    """
    context = bootstrap_server_context(certificate, key)
    context.load_verify_locations(cadata=authority.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def stream_server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a node that receives bulk data, from two file names; the sender authenticates by token."""
    return bootstrap_server_context(certificate, key)


def _any_key(_: str) -> None:
    """Return None: the authority's word counts."""


def member_context(authority: bytes, *, keys: Keys = _any_key) -> MemberContext:
    """Return the context of a client of a member, without a certificate.

    A server must present a certificate for its address, with one of the keys that ``keys`` returns for that.
    """
    context = MemberContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.decode())
    context.keys = keys
    return context


def master_client_context(certificate: str, key: str, *, authority: bytes, keys: Keys = _any_key) -> MemberContext:
    """Return the context of a master that calls nodes; ``certificate`` and ``key`` are file names, the rest as above.

    Raises OSError if the files cannot be used.
    """
    context = member_context(authority, keys=keys)
    context.load_cert_chain(certificate, key)
    return context


def service_client_context(authorities: str) -> ssl.SSLContext:
    """Return a context for a service of the site, with the authorities in a file, or the system's without a file name.

    Raises OSError if the file cannot be used.
    """
    context = ssl.create_default_context(cafile=authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def bootstrap_client_context(certificate: str) -> ssl.SSLContext:
    """Return a context that trusts exactly one certificate, at any address; raises ValueError if it is invalid.

    It ignores the certificate's dates: if the clocks differ, the master can still ask the node for its time.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= NO_CHECK_TIME
    try:
        context.load_verify_locations(cadata=certificate.encode("ascii").decode())
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"this is not a certificate: {error}") from None
    return context


def outside_client_context(
    *, authority: str = "", certificate: str = "", key: str = "", is_checked: bool = True
) -> ssl.SSLContext:
    """Return the context for a server outside the cluster, which must present a certificate for its name.

    ``authority`` is PEM; if it is empty, the system's authorities apply. ``certificate`` and ``key`` are file names.
    Raises OSError for invalid files, ValueError for an invalid authority.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        try:
            context.load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise ValueError(f"this is not a certificate: {error}") from None
    else:
        context.load_default_certs()
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context
