import os

import msgspec
import pytest

from gantry import errors
from gantry.node.membership import ssconf
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime


@pytest.fixture
def files(folders: paths.Paths) -> ssconf.Files:
    return ssconf.Files(RealRuntime().disk, folders)


async def test_values_are_files_that_all_users_may_read_and_none_may_write(
    files: ssconf.Files, folders: paths.Paths
) -> None:
    await files.write({"master_node": "node1", "node_list": "node1\nnode2\n"})
    await files.write({"master_node": "node2"})
    assert (files.read("master_node"), files.read("node_list"), files.read("other")) == ("node2", "node1\nnode2", "")
    status = os.stat(f"{folders.ssconf}/ssconf_master_node")
    assert status.st_mode & 0o777 == 0o444


@pytest.mark.parametrize("key", ["", "../x", "a/b", "A", "x" * 65, "a b"])
async def test_a_key_that_is_none_writes_nothing(files: ssconf.Files, folders: paths.Paths, key: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not a valid ssconf key"):
        await files.write({"good": "1", key: "2"})
    assert files.read("good") == ""


async def test_a_value_beyond_the_limit_is_refused(files: ssconf.Files) -> None:
    with pytest.raises(errors.InvalidError, match="longer than 8388608 bytes"):
        await files.write({"node_list": "x" * (ssconf.SIZE_LIMIT + 1)})


async def test_keys_that_differ_from_what_the_cluster_expects_are_named(files: ssconf.Files) -> None:
    await files.write({"a": "1", "b": "2", "d": ""})
    digests = {key: calls.digest_of(value) for key, value in {"a": "1", "b": "3", "c": "", "d": "\n"}.items()}
    assert files.differences(digests) == ["ssconf_b is out of date", "ssconf_c is out of date"]


async def test_only_the_clusters_own_files_can_be_uploaded(files: ssconf.Files, folders: paths.Paths) -> None:
    await files.upload("authority.key", "secret")
    await files.upload("users", "admin {HA1}x")
    status = os.stat(f"{folders.certificates}/authority.key")
    assert status.st_mode & 0o777 == 0o600
    for name in ("node.pem", "../etc/passwd", "", "certs/authority.key"):
        with pytest.raises(errors.InvalidError, match="is not the name of a cluster file"):
            await files.upload(name, "x")
    await files.upload("authority.key", "secret")
    await files.upload("authority.pem", "public")
    await files.forget()
    assert not {"users", "ssconf"} & set(os.listdir(folders.lib))
    # The call that removes the rest is verified with it.
    assert os.listdir(folders.certificates) == ["authority.pem"]


async def test_a_demoted_node_keeps_no_key_of_an_authority(files: ssconf.Files, folders: paths.Paths) -> None:
    await files.upload("authority.key", "secret")
    await files.upload("authority.pem", "public")
    disk = RealRuntime().disk
    for name in ("master.pem", "master.key", "next.pem", "next-authority.key", "node.key"):
        await disk.write(f"{folders.certificates}/{name}", b"x")
    await files.forget_secrets()
    assert sorted(os.listdir(folders.certificates)) == ["authority.pem", "node.key"]


def update(**digests: str) -> calls.UpdateSsconf:
    return calls.UpdateSsconf(digests={key: calls.digest_of(value) for key, value in digests.items()})


async def test_lines_that_changed_are_enough_for_a_file_that_is_as_the_master_thinks(files: ssconf.Files) -> None:
    await files.write({"instance_list": "a\nb\nd\n", "master_node": "node1"})
    call = msgspec.structs.replace(
        update(instance_list="a\nc\nd\n", master_node="node2"),
        lines={
            "instance_list": calls.LineChange(removed=("b",), added=("c",)),
            "master_node": calls.LineChange(removed=("node1",), added=("node2",)),
        },
    )
    for _ in range(2):
        assert await files.update(call) == ()
        assert (files.read("instance_list"), files.read("master_node")) == ("a\nc\nd", "node2")


async def test_a_file_that_changed_lines_do_not_lead_to_is_left_and_asked_for(files: ssconf.Files) -> None:
    await files.write({"instance_list": "a\nz\n", "b": "2"})
    call = msgspec.structs.replace(
        update(instance_list="a\nc\n", b="2", new="x", empty=""),
        lines={"instance_list": calls.LineChange(added=("c",))},
    )
    assert await files.update(call) == ("instance_list", "new")
    assert files.read("instance_list") == "a\nz"
    await files.write({"instance_list": "a\nc\n", "new": "x"})
    assert await files.update(call) == ()


async def test_changed_lines_of_a_key_that_is_none_are_refused(files: ssconf.Files) -> None:
    with pytest.raises(errors.InvalidError, match="is not a valid ssconf key"):
        await files.update(calls.UpdateSsconf(digests={"../x": ""}))


async def test_the_names_of_fifty_thousand_instances_fit(files: ssconf.Files) -> None:
    names = [f"instance-{number:05}.compute.example.com" for number in range(50_000)]
    await files.write({"instance_list": "\n".join(names)})
    after = "\n".join([*names, "one-more.example.com"])
    call = msgspec.structs.replace(
        update(instance_list=after), lines={"instance_list": calls.LineChange(added=("one-more.example.com",))}
    )
    assert await files.update(call) == ()
    assert files.read("instance_list") == after
