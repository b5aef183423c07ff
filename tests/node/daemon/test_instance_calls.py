"""What a node checks for every hypervisor, before a guest starts and when parameters are validated."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gantry import errors
from gantry.node import call_table, drivers
from gantry.node.daemon import instance_calls
from gantry.node.hypervisors import fake
from gantry.rpc import calls
from gantry.runtime.real import RealRuntime

OPEN: Mapping[str, calls.Value] = {"vnc_bind_address": "0.0.0.0", "vnc_password_file": ""}
GUEST = calls.Instance(name="vm1", uuid="u1", hypervisor="fake", beparams={"maxmem": 128, "minmem": 128, "vcpus": 1})


@pytest.fixture
def table(tmp_path: Path) -> call_table.Table:
    disk, table = RealRuntime().disk, call_table.Table()
    (tmp_path / "fake").mkdir()
    registry = drivers.Registry(RealRuntime("node1"), hypervisors={"fake": fake.Fake(disk, str(tmp_path))})
    instance_calls.Instances(registry, disk).add_to(table)
    return table


async def start(table: call_table.Table, **changes: object) -> None:
    instance = msgspec.structs.replace(GUEST, **changes)
    await table.answer(calls.InstanceStart.procedure(), msgspec.json.encode(calls.InstanceStart(instance=instance)))


async def test_a_guest_whose_image_leads_out_of_the_allow_list_does_not_start(
    table: call_table.Table, tmp_path: Path
) -> None:
    folder, secret = tmp_path / "iso", tmp_path / "secret"
    folder.mkdir()
    secret.touch()
    (folder / "cd").symlink_to(secret)
    lists = {"cdrom_image_path": calls.Allowed(list="images", entries=(str(folder),), form="path")}
    with pytest.raises(errors.ForbiddenError, match="which leads to"):
        await start(table, hvparams={"cdrom_image_path": f"{folder}/cd"}, allowed=lists)
    assert await table.answer(calls.InstanceList.procedure(), b'{"hypervisors": ["fake"]}') == ()
    (folder / "real").touch()
    await start(table, hvparams={"cdrom_image_path": f"{folder}/real"}, allowed=lists)


async def test_a_guest_with_an_open_console_does_not_start(table: call_table.Table) -> None:
    with pytest.raises(errors.InvalidError, match="without a password"):
        await start(table, hvparams=OPEN)


async def test_an_open_console_is_refused_before_it_is_stored(table: call_table.Table) -> None:
    body = msgspec.json.encode(calls.HypervisorValidate(hypervisor="fake", hvparams=dict(OPEN)))
    with pytest.raises(errors.InvalidError, match="without a password"):
        await table.answer(calls.HypervisorValidate.procedure(), body)


async def test_a_list_has_all_guests_or_those_of_some_names(table: call_table.Table) -> None:
    for name in ("vm1", "vm2", "vm3"):
        await start(table, name=name)

    async def listed(names: tuple[str, ...] | None) -> list[str]:
        body = msgspec.json.encode(calls.InstanceList(hypervisors=("fake",), names=names))
        answer = await table.answer(calls.InstanceList.procedure(), body)
        assert isinstance(answer, tuple)
        return [guest.name for guest in answer]

    assert await listed(None) == ["vm1", "vm2", "vm3"]
    assert await listed(("vm3", "vm1", "gone")) == ["vm1", "vm3"]
    assert await listed(()) == []
