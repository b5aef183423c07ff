"""Joins a cluster, and leaves it.

    lib/join-token                              one line; exists while the node has no cluster, another after an hour
    lib/certs/bootstrap.pem bootstrap.key       the node's certificate until it joins
    lib/certs/node.key authority.pem member.json node.pem       written in this order; a node with node.pem has joined
    lib/certs/next.key                          another key of the node, which waits for its certificate
    lib/certs/previous-N.pem previous-N.key     the certificate and key before the last N renewals of the key

All have mode 0600. An administrator copies the token to the master. The master connects to the node, checks the node's
certificate against the token (only the node has the key), and sends the token's secret with ``Join``; the answer is a
certificate request. Then the master sends certificate and authority with ``Enrol``. From then on the node obeys only
clients with the cluster's certificate. ``NodeLeave`` deletes all of these files and creates a new token.

A member's certificate is renewed in the same two halves, ``CertificateRequest`` and ``CertificateStore``. The new
certificate is written before its key takes the place of the old one; a daemon that starts between both completes that.
"""

import asyncio
import hmac
import logging
import ssl

from msgspec import structs

from gantry import errors, security
from gantry.lib_files import member as member_file
from gantry.rpc import calls
from gantry.runtime import http_interface, interface, paths

logger = logging.getLogger(__name__)

SECRET_BYTES = 32
TOKEN_SECONDS = 3600.0
"""How long a join token is valid, by the node's monotonic clock: setting the date does not prolong it."""

WARN_EVERY = 10
"""Wrong secrets per warning. They are counted only for the administrator: a guess succeeds with probability 2**-256."""


class Enrolment:
    """The certificates and the token of a node.

    ``secure=False`` creates TLS contexts without certificates: a simulated disk has no files that ``ssl`` could load,
    and a simulated network does not use certificates.
    """

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, secure: bool = True) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._token = f"{folders.lib}/join-token"
        self._folder = folders.certificates
        self._secure = secure
        self._pending: tuple[member_file.Member, bytes] | None = None
        self._refused = 0
        self._made: float | None = None
        self._joining = asyncio.Lock()
        self._name = ""

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @property
    def joined(self) -> bool:
        """Return whether the node belongs to a cluster."""
        return self._disk.exists(self._path("node.pem"))

    def member(self) -> member_file.Member | None:
        """Return the node's identity in its cluster; None without a cluster."""
        if not self.joined:
            return None
        return member_file.decode(self._disk.read(member_file.path(self._folder)))

    def name(self) -> str:
        """Return the node's name; the machine's, while it has no cluster."""
        if not self._name:
            member = self.member()
            self._name = member.node if member else self._runtime.host
        return self._name

    async def prepare(self) -> None:
        """Create certificate and token if the node has no cluster, unless it has a token that is still valid.

        A daemon that starts does not know the age of the token that it finds, so it makes another one.
        """
        await self._disk.make_directory(self._folder, mode=0o700)
        await self._complete_renewal()
        if not self.joined and self._seconds_left() <= 0:
            await self._make_token()

    def token_seconds(self) -> float | None:
        """Return for how long the join token is valid; None for a member of a cluster."""
        return None if self.joined else max(0.0, self._seconds_left())

    def _seconds_left(self) -> float:
        return 0.0 if self._made is None else self._made + TOKEN_SECONDS - self._runtime.clock.monotonic()

    def context(self) -> ssl.SSLContext:
        """Return a TLS context for the node's server; after ``enrol``, ``store`` and ``leave`` it needs another one."""
        if not self._secure:
            return http_interface.UncheckedContext(ssl.PROTOCOL_TLS_SERVER)
        if self.joined:
            own = self._path("node.pem"), self._path("node.key")
            return security.node_server_context(*own, authority=self.authority())
        return security.bootstrap_server_context(self._path("bootstrap.pem"), self._path("bootstrap.key"))

    def authority(self) -> bytes:
        """Return the certificates of the authorities that this member of a cluster trusts now."""
        return self._disk.read(self._path("authority.pem"))

    async def _make_token(self) -> None:
        bootstrap = security.make_bootstrap(self._runtime.host, self._runtime.clock.now())
        token = security.JoinToken(self._runtime.random.token(SECRET_BYTES).hex(), bootstrap.certificate.decode())
        await self._write("bootstrap.key", bootstrap.key)
        await self._write("bootstrap.pem", bootstrap.certificate)
        await self._disk.write(self._token, token.encode().encode() + b"\n", mode=0o600)
        self._made = self._runtime.clock.monotonic()
        logger.info("this node has no cluster; its join token is in %s", self._token)

    async def _write(self, name: str, content: bytes) -> None:
        await self._disk.write(self._path(name), content, mode=0o600)

    def _check_secret(self, secret: str) -> None:
        if self.joined:
            raise errors.WrongStateError(
                "this node has joined a cluster meanwhile", hint="remove it there with gnt-node remove, then repeat"
            )
        if self._seconds_left() <= 0:
            raise errors.InvalidError(
                f"this node's join token is older than {TOKEN_SECONDS / 3600:g} h and has ended",
                hint=f"use the line that is in {self._token} on the node now",
            )
        token = security.JoinToken.decode(self._disk.read(self._token).decode())
        if hmac.compare_digest(secret.encode(), token.secret.encode()):
            return
        self._refused += 1
        if self._refused % WARN_EVERY == 1:
            logger.warning("a client sent a wrong join secret, %d in all", self._refused)
        raise errors.InvalidError(
            "the secret is not the one in this node's join token", hint=f"use the line in {self._token} on the node"
        )

    async def join(self, call: calls.Join) -> str:
        """Answer the first call: create a key and return a certificate request for it."""
        async with self._joining:
            self._check_secret(call.secret)
            key, request = security.make_request(call.node)
            member = member_file.Member(cluster=call.cluster, node=call.node, uuid=call.uuid, address=call.address)
            self._pending = member, key
            return request.decode()

    async def enrol(self, call: calls.Enrol) -> None:
        """Answer the second call: store the certificates, so that ``context`` is that of a member."""
        async with self._joining:
            self._check_secret(call.secret)
            if self._pending is None:
                raise errors.WrongStateError("this node has not requested a certificate", hint="start joining again")
            member, key = self._pending
            certificate, authority = call.certificate.encode(), call.authority.encode()
            try:
                security.check_issued(security.Pair(certificate, key), authority)
            except ValueError as error:
                raise errors.InvalidError(f"the certificate for {member.node} cannot be used: {error}") from None
            await self._write("node.key", key)
            await self._write("authority.pem", authority)
            await self._write("member.json", member_file.encode(structs.replace(member, masters=call.masters)))
            await self._write("node.pem", certificate)
            for path in (self._token, self._path("bootstrap.pem"), self._path("bootstrap.key")):
                await self._disk.remove(path)
            self._pending = None
            self._name = member.node
            logger.info("joined cluster %s as %s", member.cluster, member.node)

    async def request(self, call: calls.CertificateRequest) -> str:
        """Answer the first half of a renewal: return a certificate request for the present key, or for a new one."""
        member = self.member()
        assert member is not None
        own_key = b"" if call.new_key else self._disk.read(self._path("node.key"))
        key, request = security.make_request(member.node, own_key)
        if call.new_key:
            await self._write("next.key", key)
        return request.decode()

    async def store(self, call: calls.CertificateStore) -> None:
        """Answer the second half of a renewal: store the certificates, so that ``context`` has them."""
        certificate, authority = call.certificate.encode(), call.authority.encode()
        try:
            security.end_of(authority)
            if certificate:
                self._key_of(certificate, authority)
        except ValueError as error:
            raise errors.InvalidError(f"the new certificate of {self._runtime.host} cannot be used: {error}") from None
        await self._write("authority.pem", authority)
        if certificate:
            if self._key_of(certificate, authority) == "next.key":
                await self._keep_earlier()
            await self._write("node.pem", certificate)
            await self._complete_renewal()
            logger.info("the certificate of this node was renewed")

    def _key_of(self, certificate: bytes, authority: bytes) -> str:
        """Return the name of the file with the key of a certificate; ValueError if the node has no such key."""
        names = [name for name in ("node.key", "next.key") if self._disk.exists(self._path(name))]
        failure = ValueError("the node has no key")
        for name in names:
            try:
                security.check_issued(security.Pair(certificate, self._disk.read(self._path(name))), authority)
            except ValueError as error:
                failure = error
            else:
                return name
        raise failure

    async def _complete_renewal(self) -> None:
        """Let the key of the stored certificate take the place of the old key."""
        if not (self.joined and self._disk.exists(self._path("next.key"))):
            return
        certificate, authority = (self._disk.read(self._path(name)) for name in ("node.pem", "authority.pem"))
        if self._key_of(certificate, authority) == "next.key":
            await self._write("node.key", self._disk.read(self._path("next.key")))
            await self._disk.remove(self._path("next.key"))

    async def _keep_earlier(self) -> None:
        """Keep the present certificate and key, and those before: a crash in between loses none but the earliest."""
        for number in reversed(range(calls.EARLIER_KEYS)):
            for source, target in zip(_pair_names(number), _pair_names(number + 1), strict=True):
                if self._disk.exists(self._path(source)):
                    await self._write(target, self._disk.read(self._path(source)))

    def pair(self, *, earlier: int = 0) -> security.Pair:
        """Return certificate and key of this node, or those before the last renewals of its key; WrongStateError."""
        names = _pair_names(earlier)
        if not all(self._disk.exists(self._path(name)) for name in names):
            raise errors.WrongStateError(f"{self._runtime.host} has no key from before {earlier} renewals")
        return security.Pair(*(self._disk.read(self._path(name)) for name in names))

    async def leave(self) -> None:
        """Delete the certificates; the next ``prepare`` creates a new token."""
        await self._disk.remove(self._path("node.pem"))
        await self._disk.remove_tree(self._folder)
        self._refused = 0
        self._made = None
        self._name = ""
        logger.info("left the cluster")


def _pair_names(earlier: int) -> tuple[str, str]:
    """Return the names of the files with certificate and key before a number of renewals."""
    stem = f"previous-{earlier}" if earlier else "node"
    return f"{stem}.pem", f"{stem}.key"
