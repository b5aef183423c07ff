import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node import samples
from tests.node.storage import storages
from tests.node.storage.storages import OWNER, Storage

from gantry import errors
from gantry.node.storage import external
from gantry.rpc import calls


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Storage]:
    with storages.provider(tmp_path) as provider_storage:
        yield provider_storage


@pytest.fixture
def home(files: Storage, tmp_path: Path) -> Path:
    return tmp_path / "srv/extstorage"


def script_variables(home: Path, script: str, name: str) -> dict[str, str]:
    """Return the environment of a script."""
    lines = (home.parent / f"volumes/{name}.{script}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


async def test_scripts_get_the_volume_and_the_parameters(files: Storage, home: Path) -> None:
    disk = calls.Disk(
        index=0,
        uuid="d0",
        dev_type="ext",
        size=4,
        name="data",
        logical_id=("files", "v0"),
        params={"provider": "files", "access": "kernelspace", "pool": "fast"},
    )
    await files.driver.create(disk, owner=OWNER)
    known = {"VOL_NAME": "v0", "VOL_UUID": "d0", "VOL_CNAME": "data", "EXTP_POOL": "fast"}
    assert script_variables(home, "create", "v0") == known | {"VOL_SIZE": "4"}
    assert script_variables(home, "setinfo", "v0") == known | {"VOL_METADATA": f"originstname+{OWNER}"}
    await files.driver.grow(disk, 8, backing=False, dry_run=False)
    assert script_variables(home, "grow", "v0") == known | {"VOL_SIZE": "4", "VOL_NEW_SIZE": "8"}
    assert await files.driver.snapshot(disk, "kept") == ("ext", ("files", "kept"))
    assert script_variables(home, "snapshot", "v0") == known | {
        "VOL_SIZE": "4",
        "VOL_SNAPSHOT_NAME": "kept",
        "VOL_SNAPSHOT_SIZE": "4",
    }


async def test_a_disk_has_a_path_while_it_is_attached(files: Storage) -> None:
    disk = files.disk()
    path = await files.driver.create(disk, owner=OWNER)
    assert files.driver.path(disk) == path
    await files.driver.deactivate(disk)
    with pytest.raises(errors.WrongStateError, match="disk 0 is not attached to node node1; activate"):
        files.driver.path(disk)
    state = await files.driver.find(disk)
    assert state is not None
    assert not state.active
    assert await files.driver.activate(disk, primary=True) == path


async def test_a_parameter_that_the_provider_refuses_is_said_and_nothing_made(files: Storage, home: Path) -> None:
    disk = calls.Disk(index=0, uuid="d0", dev_type="ext", size=4, logical_id=("files", "v0"), params={"pool": "slow"})
    with pytest.raises(
        errors.ExecutionError, match=r"verify script of .* failed with exit code 1: there is no pool slow"
    ):
        await files.driver.create(disk, owner=OWNER)
    assert not (home.parent / "volumes/v0").exists()


async def test_what_a_failed_script_wrote_is_kept(files: Storage, tmp_path: Path) -> None:
    with pytest.raises(errors.ExecutionError, match=r"no volume d0\.ext\.disk0; its whole output is in (.*)\.log"):
        await files.driver.activate(files.disk(), primary=True)
    (log,) = (tmp_path / "log/extstorage").iterdir()
    assert b"no volume d0.ext.disk0" in samples.read(str(log))


async def test_a_provider_that_attaches_nothing_is_found_out(files: Storage, home: Path) -> None:
    samples.write(str(home / "files/attach"), "#!/bin/sh\necho /dev/nowhere\n", mode=0o755)
    with pytest.raises(errors.ExecutionError, match="printed '/dev/nowhere' on node node1, not the path of a device"):
        await files.driver.activate(files.disk(), primary=True)


async def test_a_provider_without_a_script_that_may_be_missing_refuses_only_what_needs_it(
    files: Storage, home: Path
) -> None:
    disk = files.disk()
    await files.driver.create(disk, owner=OWNER)
    (home / "files/snapshot").unlink()
    with pytest.raises(errors.WrongStateError, match="storage provider files does not support snapshots"):
        await files.driver.snapshot(disk, "kept")
    await files.driver.open(disk, force=False)


@pytest.mark.parametrize("script", external.MANDATORY)
def test_a_provider_without_a_script_that_is_needed_is_not_valid(files: Storage, home: Path, script: str) -> None:
    providers = external.Providers(storages.runtime(), [str(home)])
    (provider,) = providers.diagnose()
    assert (provider.name, provider.problem, [name for name, _ in provider.parameters]) == ("files", "", ["pool"])
    os.chmod(home / f"files/{script}", 0o644)
    assert providers.diagnose()[0].problem == f"the script {script} is not executable"
    (home / f"files/{script}").unlink()
    with pytest.raises(errors.WrongStateError, match=f"is not valid: the script {script} is missing"):
        providers.find("files")


def test_a_provider_that_is_not_there_is_named_with_where_to_put_it(files: Storage, home: Path) -> None:
    providers = external.Providers(storages.runtime(), [str(home)])
    for name in ("nothing", "..", "", "a/b"):
        with pytest.raises(errors.NotFoundError, match=f"install it in {home}"):
            providers.find(name)
