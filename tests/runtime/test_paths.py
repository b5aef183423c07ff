"""Where the files and folders of a node are."""

import dataclasses
from collections.abc import Iterator

import pytest

from gantry.runtime import paths

FOREIGN = (
    "/usr/local/lib/ganeti/iallocators",
    "/usr/lib/ganeti/iallocators",
    "/usr/share/gantry/os",
)
"""Folders of other packages, which no root moves."""


def all_paths(folders: paths.Paths) -> Iterator[str]:
    for name, member in vars(paths.Paths).items():
        if isinstance(member, property):
            value = getattr(folders, name)
            yield from (value,) if isinstance(value, str) else value


def test_without_a_root_the_folders_are_those_of_the_system() -> None:
    assert dataclasses.astuple(paths.Paths.below("")) == (
        "/var/lib/gantry",
        "/run/gantry",
        "/var/log/gantry",
        "/etc/gantry",
        "/srv/gantry",
    )


@pytest.mark.parametrize("root", ["/tmp/node1", "/tmp/node1/"])
def test_a_root_moves_all_of_them(root: str) -> None:
    folders = paths.Paths.below(root)
    names = ("lib", "run", "log", "etc", "srv")
    assert dataclasses.astuple(folders) == tuple(f"/tmp/node1/{name}" for name in names)
    moved = [path for path in all_paths(folders) if path not in FOREIGN]
    assert all(path.startswith(dataclasses.astuple(folders)) for path in moved)
    assert len(set(moved)) == len(moved) > 20


def test_the_paths_are_those_of_the_reference() -> None:
    folders = paths.Paths.below("")
    assert [
        *(folders.config, folders.journal, folders.incoming, folders.journal_end, folders.queue, folders.users),
        *(folders.remote_certificate, folders.issued_remote_certificate, folders.keystone_password),
        *(folders.oidc_secret, folders.luxi_socket),
    ] == [
        *("/var/lib/gantry/config.data", "/var/lib/gantry/journal", "/var/lib/gantry/incoming"),
        *("/var/lib/gantry/journal-end", "/var/lib/gantry/queue", "/var/lib/gantry/users"),
        *("/var/lib/gantry/rapi.pem", "/var/lib/gantry/rapi-issued.pem", "/var/lib/gantry/keystone-password"),
        *("/var/lib/gantry/oidc-secret", "/run/gantry/master.sock"),
    ]


def test_what_the_administrator_or_the_site_installs_comes_before_what_a_package_has() -> None:
    folders = paths.Paths.below("/n")
    assert folders.storage_providers == ("/n/srv/extstorage", "/n/etc/extstorage")
    assert folders.allocators == ("/n/srv/iallocators", "/n/etc/iallocators", *FOREIGN[:2])
    assert folders.os_definitions == ("/n/srv/os", "/n/etc/os", FOREIGN[2])
