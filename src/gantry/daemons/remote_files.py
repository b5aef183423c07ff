"""The files of ``gantry-rapi``: the master daemon issues its certificate, and keeps the files readable by its group.

    lib/users, lib/rapi.pem    of the administrator, or copied to a master candidate; mode 0640, group gantry-rapi
    lib/rapi-issued.pem        certificate and key, issued by the master if there is no rapi.pem; the same

Without that group ``gantry-rapi`` runs as root, and the files are root's. The key of the node is never shared: it
commands nodes while the node is a master candidate. Its certificate does not name ``localhost``
(explanation/decisions/0062-who-is-localhost.md), so ``gantry-rapi`` uses it only before the master has issued another.
"""

import logging

from gantry import errors, security
from gantry.mastership import identity
from gantry.runtime import interface, paths
from gantry.runtime.real import groups
from gantry.state.store import transaction

log = logging.getLogger(__name__)

GROUP = "gantry-rapi"
CHECK_SECONDS = 10.0
"""Interval at which replaced files become readable."""
ISSUE_SECONDS = 86400.0
"""Interval at which the certificate is issued again, besides each change of the authorities that are trusted."""


async def keep(runtime: interface.Runtime, folders: paths.Paths, store: transaction.Store) -> None:
    """Keep the files readable and the certificate new, until cancelled."""
    issued, trusted = -ISSUE_SECONDS, b""
    while True:
        try:
            now = runtime.clock.monotonic()
            if not runtime.disk.exists(folders.remote_certificate):
                authorities = runtime.disk.read(f"{folders.certificates}/authority.pem")
                if now - issued >= ISSUE_SECONDS or authorities != trusted:
                    await issue(runtime, folders, store)
                    issued, trusted = now, authorities
            share(folders)
        except (errors.GantryError, OSError) as error:
            log.warning("the certificate of gantry-rapi was not issued, or its group cannot read it: %s", error)
        await runtime.clock.sleep(CHECK_SECONDS)


def share(folders: paths.Paths) -> None:
    """Make the files that exist readable by the group, if there is one; OSError."""
    if groups.number(GROUP) is None:
        return
    for path in (folders.users, folders.remote_certificate, folders.issued_remote_certificate):
        if groups.share(path, GROUP):
            log.info("the group %s may read %s", GROUP, path)


async def issue(runtime: interface.Runtime, folders: paths.Paths, store: transaction.Store) -> None:
    """Issue a certificate for the names of the cluster and of this master, and a new key for it."""
    state = store.durable
    node = state.nodes[state.the_cluster.master_node]
    now, signing = runtime.clock.now(), identity.load(runtime, folders).signing
    key, request = security.make_request(node.name)
    pem = security.issue(
        signing, request, uuid=node.name, name=node.name, address=node.primary_ip, now=now,
        other_names=(state.the_cluster.name,), is_local=True,
    )  # fmt: skip
    await runtime.disk.write(folders.issued_remote_certificate, pem + key, mode=0o600)
