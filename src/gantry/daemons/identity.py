"""The master's credentials: the cluster's certificate authority, which signs nodes, and the master's own certificate.

    lib/certs/authority.pem, authority.key    on every master candidate
    lib/users                                 users of the remote API, on every master candidate, if the file exists
    lib/certs/master.pem, master.key          recreated at each start of the master daemon

The master daemon and the initialization of a cluster call this module.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors, security
from gantry.runtime import interface, paths


@dataclass(frozen=True)
class Authority:
    """``operations.base.Authority`` over a pair of PEM texts."""

    pair: security.Pair
    runtime: interface.Runtime
    users: str

    @property
    def certificate(self) -> str:
        """Return the authority's own certificate."""
        return self.pair.certificate.decode()

    def papers(self) -> Mapping[str, str]:
        """Return certificate and key, and the current content of the file with users."""
        own = {"authority.pem": self.certificate, "authority.key": self.pair.key.decode()}
        disk = self.runtime.disk
        return own | ({"users": disk.read(self.users).decode(errors="replace")} if disk.exists(self.users) else {})

    def issue(self, request: str, *, uuid: str, name: str, address: str) -> str:
        """Return a node's certificate; raises InvalidError for an invalid request."""
        try:
            pem = security.issue(
                self.pair, request.encode(), uuid=uuid, name=name, address=address, now=self.runtime.clock.now()
            )
        except ValueError as error:
            raise errors.InvalidError(f"node {name} sent an invalid certificate request: {error}") from None
        return pem.decode()


def load(runtime: interface.Runtime, folders: paths.Paths) -> Authority:
    """Read the cluster's authority from this machine; raises ConfigurationError if it is missing."""
    folder = folders.certificates
    try:
        pair = security.Pair(runtime.disk.read(f"{folder}/authority.pem"), runtime.disk.read(f"{folder}/authority.key"))
    except FileNotFoundError as error:
        raise errors.ConfigurationError(
            f"the key or certificate of the cluster's authority is missing: {error.filename}",
            hint="copy it from another master candidate",
        ) from None
    return Authority(pair, runtime, folders.users)


async def store(runtime: interface.Runtime, folders: paths.Paths, pair: security.Pair) -> None:
    """Write the authority of a new cluster, readable by root only."""
    await runtime.disk.make_directory(folders.certificates, mode=0o700)
    await runtime.disk.write(f"{folders.certificates}/authority.pem", pair.certificate, mode=0o600)
    await runtime.disk.write(f"{folders.certificates}/authority.key", pair.key, mode=0o600)


async def client_context(
    runtime: interface.Runtime, folders: paths.Paths, authority: Authority, *, secure: bool
) -> ssl.SSLContext:
    """Issue the master's certificate and return the TLS context of its calls to nodes.

    ``secure=False`` returns a context without certificates, for a simulated disk, from which ``ssl`` cannot load files.
    """
    own = security.issue_master(authority.pair, runtime.clock.now())
    certificate, key = f"{folders.certificates}/master.pem", f"{folders.certificates}/master.key"
    await runtime.disk.write(certificate, own.certificate, mode=0o600)
    await runtime.disk.write(key, own.key, mode=0o600)
    if not secure:
        return security.unchecked_context(ssl.PROTOCOL_TLS_CLIENT)
    return security.master_client_context(certificate, key, authority=authority.pair.certificate)
