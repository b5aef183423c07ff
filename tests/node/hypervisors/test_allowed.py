"""A node's check of a guest before its start: symbolic links are followed, and both paths must be allowed."""

from pathlib import Path

import pytest
from msgspec import structs

from gantry import errors
from gantry.node.hypervisors import allowed
from gantry.rpc import calls
from gantry.runtime.real import RealRuntime

DISK = RealRuntime().disk
BARE = calls.Instance(name="vm1", uuid="u1", hypervisor="kvm")


def guest(parameter: str, value: str, *entries: str, form: str = "path") -> calls.Instance:
    lists = {parameter: calls.Allowed(list="images", entries=entries, form=form)}
    return structs.replace(BARE, hvparams={parameter: value}, allowed=lists)


def test_a_file_below_an_allowed_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "cd.iso").touch()
    allowed.check(DISK, guest("cdrom_image_path", f"{tmp_path}/cd.iso", str(tmp_path)))
    allowed.check(DISK, BARE)


def test_a_link_out_of_the_allowed_folder_is_refused(tmp_path: Path) -> None:
    folder, secret = tmp_path / "iso", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("x")
    (folder / "cd.iso").symlink_to(secret)
    (folder / "inside").symlink_to(tmp_path)
    for path in (folder / "cd.iso", folder / "inside/secret"):
        with pytest.raises(errors.ForbiddenError) as caught:
            allowed.check(DISK, guest("cdrom_image_path", str(path), str(folder)))
        assert f"parameter cdrom_image_path of instance vm1: {path}, which leads to {secret}," in str(caught.value)
        assert f"gnt-cluster modify --allow 'images={secret}'" in str(caught.value)
    allowed.check(DISK, guest("cdrom_image_path", str(folder / "cd.iso"), str(folder), str(secret)))


def test_a_link_that_is_outside_itself_is_refused_although_it_leads_inside(tmp_path: Path) -> None:
    (tmp_path / "iso").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "iso")
    with pytest.raises(errors.ForbiddenError):
        allowed.check(DISK, guest("cdrom_image_path", str(tmp_path / "link"), str(tmp_path / "iso")))


def test_arguments_are_compared_too() -> None:
    with pytest.raises(errors.ForbiddenError, match="which is empty"):
        allowed.check(DISK, guest("kvm_extra", "-snapshot", form="options"))
    allowed.check(DISK, guest("kvm_extra", "-snapshot", "-snapshot", form="options"))
