"""The master's credentials: the cluster's certificate authority, which signs nodes, and the master's own certificate.

    lib/certs/authority.pem    certificates of all authorities that are trusted; on every node
    lib/certs/authority.key    the key that belongs to one of them; on every master candidate
    lib/certs/next.pem, next-authority.key      an authority that is to follow, until all nodes trust it; on the master
    lib/users, lib/rapi.pem    users and certificate of the remote API, on every master candidate, if the files exist
    lib/certs/master.pem       the master's certificate for the key of its machine's node, lib/certs/node.key
    etc/authority-secret       the passphrase or PIN of an authority's key that is not stored in clear

The master daemon and the initialization of a cluster call this module. The master's certificate lasts for a week, and
is issued again at each start and every day.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gantry import errors, security
from gantry.runtime import http_interface, interface, paths

logger = logging.getLogger(__name__)

DAY_SECONDS = 86400.0
RETRY_SECONDS = 60.0


class Authority:
    """``operations.base.Authority`` over the files of this machine.

    ``credentials_changed`` issues the master's own certificate again, and lets the master use it.
    """

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, stored_key: bytes) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._stored_key = stored_key
        self.signing = self._loaded(stored_key)
        self.credentials_changed: Callable[[], Awaitable[None]] | None = None

    def _path(self, name: str) -> str:
        return f"{self._folders.certificates}/{name}"

    def _secret(self) -> bytes:
        path = f"{self._folders.etc}/authority-secret"
        if not self._disk.exists(path):
            raise ValueError(f"it is not stored in clear, and {path} with its passphrase or PIN does not exist")
        if self._disk.status(path).mode & 0o077:
            raise ValueError(f"others may read its secret, {path}: make its mode 0600")
        return self._disk.read(path)

    def _loaded(self, stored_key: bytes) -> security.Authority:
        try:
            key = security.authority_key.load(stored_key, secret=self._secret)
            authority = security.Authority(self._disk.read(self._path("authority.pem")), key)
            security.own_certificate(authority)
        except ValueError as error:
            raise errors.ConfigurationError(
                f"the key of the cluster's authority, {self._path('authority.key')}, cannot be used: {error}",
                hint="copy authority.pem and authority.key from another master candidate, or provide the secret",
            ) from None
        return authority

    @property
    def certificates(self) -> str:
        """Return the certificates of all authorities that are trusted."""
        return self.signing.certificates.decode()

    @property
    def own_certificate(self) -> str:
        """Return the certificate of the authority that issues certificates."""
        return security.own_certificate(self.signing).decode()

    def papers(self) -> Mapping[str, str]:
        """Return what master candidates keep: the authority's files, and those of the remote API as they are now."""
        own = {"authority.pem": self.certificates, "authority.key": self._stored_key.decode()}
        files = {"users": self._folders.users, "rapi.pem": f"{self._folders.lib}/rapi.pem"}
        return own | {
            name: self._disk.read(path).decode(errors="replace")
            for name, path in files.items()
            if self._disk.exists(path)
        }

    def issue(self, request: str, *, uuid: str, name: str, address: str) -> str:
        """Return a node's certificate; raises InvalidError for an invalid request."""
        try:
            now = self._runtime.clock.now()
            pem = security.issue(self.signing, request.encode(), uuid=uuid, name=name, address=address, now=now)
        except ValueError as error:
            raise errors.InvalidError(f"node {name} sent an invalid certificate request: {error}") from None
        return pem.decode()

    async def renew_master(self) -> None:
        """Issue the master's own certificate again, for the key of its node, and use it for all new connections."""
        if self.credentials_changed:
            await self.credentials_changed()

    async def renew_remote_api(self, *, names: Sequence[str], address: str) -> None:
        """Issue a certificate and a key for the remote API, valid for the names and the address, in one file."""
        now, (name, *more_names) = self._runtime.clock.now(), names
        key, request = security.make_request(name)
        pem = security.issue(
            self.signing, request, uuid=name, name=name, address=address, now=now, other_names=more_names, is_local=True
        )
        await self._disk.write(f"{self._folders.lib}/rapi.pem", pem + key, mode=0o600)

    async def add_successor(self, cluster: str) -> None:
        """Create the authority that is to follow, and trust it too; nothing is issued by it yet."""
        await self.drop_successor()
        successor = security.make_authority(cluster, self._runtime.clock.now())
        try:
            stored_key = security.authority_key.store_like(self._stored_key, successor.key, secret=self._secret)
        except ValueError as error:
            raise errors.WrongStateError(
                f"a new authority cannot be stored: {error}", hint="see the page about the authority's key"
            ) from None
        await self._write("next-authority.key", stored_key)
        await self._write("next.pem", successor.certificates)
        await self._trust([self.signing.certificates, successor.certificates])

    async def switch(self) -> None:
        """Issue certificates by the successor from now on, and trust the one before too; a repetition does nothing."""
        if not self._disk.exists(self._path("next.pem")):
            return
        stored_key = self._disk.read(self._path("next-authority.key"))
        await self._write("authority.key", stored_key)
        self._stored_key, self.signing = stored_key, self._loaded(stored_key)
        for name in ("next.pem", "next-authority.key"):
            await self._disk.remove(self._path(name))

    async def drop_successor(self) -> None:
        """Undo ``add_successor``; after ``switch`` there is nothing to undo."""
        if self._disk.exists(self._path("next.pem")):
            successor = self._disk.read(self._path("next.pem"))
            if successor != security.own_certificate(self.signing):
                await self._trust(security.without(self.signing.certificates, successor))
            for name in ("next.pem", "next-authority.key"):
                await self._disk.remove(self._path(name))

    async def forget_others(self) -> None:
        """Trust only the authority that issues certificates."""
        await self._trust([security.own_certificate(self.signing)])

    async def _trust(self, certificates: list[bytes]) -> None:
        bundle = security.bundle(certificates)
        await self._write("authority.pem", bundle)
        self.signing = self.signing._replace(certificates=bundle)

    async def _write(self, name: str, content: bytes) -> None:
        await self._disk.write(self._path(name), content, mode=0o600)


def load(runtime: interface.Runtime, folders: paths.Paths) -> Authority:
    """Read the cluster's authority from this machine; raises ConfigurationError if it is missing or unusable."""
    try:
        return Authority(runtime, folders, runtime.disk.read(f"{folders.certificates}/authority.key"))
    except FileNotFoundError as error:
        raise errors.ConfigurationError(
            f"the key or certificate of the cluster's authority is missing: {error.filename}",
            hint="copy it from another master candidate",
        ) from None


async def create(runtime: interface.Runtime, folders: paths.Paths, cluster: str) -> Authority:
    """Make the authority of a new cluster, readable by root only."""
    own = security.make_authority(cluster, runtime.clock.now())
    await runtime.disk.make_directory(folders.certificates, mode=0o700)
    await runtime.disk.write(f"{folders.certificates}/authority.pem", own.certificates, mode=0o600)
    await runtime.disk.write(f"{folders.certificates}/authority.key", security.authority_key.store(own.key), mode=0o600)
    return load(runtime, folders)


class Credentials:
    """The certificate with which a master calls nodes, and the TLS context with it.

    ``renew`` replaces the context; then connections must be made by the one that is present. ``keys`` returns the keys
    that a node at an address may have, None for any. ``secure=False`` makes a context without files, for a simulated
    disk, from which ``ssl`` cannot load any.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        authority: Authority,
        *,
        keys: Callable[[str], tuple[str, ...] | None] = lambda _: None,
        secure: bool,
    ) -> None:
        self._runtime = runtime
        self._folder = folders.certificates
        self._authority = authority
        self._keys = keys
        self._secure = secure
        self._renewal = asyncio.Lock()
        self.context: ssl.SSLContext = (
            security.member_context(authority.signing.certificates, keys=keys) if secure else _unchecked_context()
        )

    async def renew(self) -> None:
        """Issue the certificate for the key that this machine's node has now, and make a context with it.

        The context trusts the present authorities alone. Raises ConfigurationError without a node.
        """
        disk, key = self._runtime.disk, f"{self._folder}/node.key"
        if not disk.exists(key):
            raise errors.ConfigurationError(
                f"this machine is not part of a cluster: {key} does not exist", hint="start gantry-noded first"
            )
        # The renewal of the day, with authorities that a job replaces meanwhile, must not end after that of the job.
        async with self._renewal:
            await self._renew(key)

    async def _renew(self, key: str) -> None:
        disk = self._runtime.disk
        signing, path = self._authority.signing, f"{self._folder}/master.pem"
        own = security.issue_master(signing, self._runtime.clock.now(), key=disk.read(key))
        await disk.write(path, own.certificate, mode=0o600)
        if self._secure:
            self.context = security.master_client_context(path, key, authority=signing.certificates, keys=self._keys)
        else:
            self.context = unchecked = _unchecked_context()
            unchecked.present(own.certificate)

    async def keep(self) -> None:
        """Issue the certificate again every day, and let the master use it, until cancelled."""
        clock, seconds = self._runtime.clock, DAY_SECONDS
        while True:
            await clock.sleep(seconds)
            try:
                await self._authority.renew_master()
                seconds = DAY_SECONDS
            except (errors.GantryError, OSError) as error:
                logger.error("the master's certificate could not be renewed: %s", error)
                seconds = RETRY_SECONDS


def _unchecked_context() -> http_interface.UncheckedContext:
    return http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
