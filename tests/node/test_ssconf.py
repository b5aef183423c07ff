import os

import pytest

from gantry import errors
from gantry.node import ssconf
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime


@pytest.fixture
def files(folders: paths.Paths) -> ssconf.Files:
    return ssconf.Files(RealRuntime().disk, folders)


async def test_values_are_files_that_everybody_may_read_and_nobody_write(
    files: ssconf.Files, folders: paths.Paths
) -> None:
    await files.write({"master_node": "node1", "node_list": "node1\nnode2\n"})
    await files.write({"master_node": "node2"})
    assert (files.read("master_node"), files.read("node_list"), files.read("other")) == ("node2", "node1\nnode2", "")
    status = os.stat(f"{folders.ssconf}/ssconf_master_node")
    assert status.st_mode & 0o777 == 0o444


@pytest.mark.parametrize("key", ["", "../x", "a/b", "A", "x" * 65, "a b"])
async def test_a_key_that_is_none_writes_nothing(files: ssconf.Files, folders: paths.Paths, key: str) -> None:
    with pytest.raises(errors.InvalidError, match="is no ssconf key"):
        await files.write({"good": "1", key: "2"})
    assert files.read("good") == ""


async def test_a_value_beyond_the_limit_is_refused(files: ssconf.Files) -> None:
    with pytest.raises(errors.InvalidError, match="longer than 131072 bytes"):
        await files.write({"node_list": "x" * (128 * 1024 + 1)})


async def test_keys_that_differ_from_what_the_cluster_expects_are_named(files: ssconf.Files) -> None:
    await files.write({"a": "1", "b": "2"})
    assert files.differences({"a": "1", "b": "3", "c": "4"}) == ["ssconf_b is out of date", "ssconf_c is out of date"]


async def test_only_the_clusters_own_files_can_be_uploaded(files: ssconf.Files, folders: paths.Paths) -> None:
    await files.upload("authority.key", "secret")
    await files.upload("users", "admin {HA1}x")
    status = os.stat(f"{folders.certificates}/authority.key")
    assert status.st_mode & 0o777 == 0o600
    for name in ("node.pem", "../etc/passwd", "", "certs/authority.key"):
        with pytest.raises(errors.InvalidError, match="is no file that a node takes"):
            await files.upload(name, "x")
    await files.forget()
    assert not {"users", "ssconf"} & set(os.listdir(folders.lib))


async def test_files_of_a_master_that_was_replaced_are_refused(files: ssconf.Files) -> None:
    await files.write({"master_node": "node1"}, epoch=3)
    with pytest.raises(errors.WrongStateError, match="epoch 2 has passed"):
        await files.write({"master_node": "node0"}, epoch=2)
    assert (files.read("master_node"), files.epoch()) == ("node1", 3)
    await files.write({"master_node": "node2"}, epoch=4)
    await files.forget()
    assert files.epoch() == 0
