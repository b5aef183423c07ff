"""Whether a unit of systemd starts the master daemon on this machine."""

import json
from pathlib import Path

import pytest

from gantry.daemons import is_master
from gantry.runtime import paths


@pytest.fixture
def folders(tmp_path: Path) -> paths.Paths:
    own = paths.Paths.below(str(tmp_path))
    for folder in (own.certificates, own.ssconf):
        Path(folder).mkdir(parents=True)
    return own


def join(folders: paths.Paths, node: str) -> None:
    Path(folders.certificates, "member.json").write_text(json.dumps({"node": node, "uuid": "1"}))


def name_master(folders: paths.Paths, node: str) -> None:
    Path(folders.ssconf, "ssconf_master_node").write_text(f"{node}\n")


def exit_code(folders: paths.Paths) -> int:
    return is_master.main(["--root", folders.lib.removesuffix("/lib")])


@pytest.mark.parametrize(("master", "code"), [("node1", 0), ("node2", 1), ("node11", 1)])
def test_the_master_is_the_node_that_the_ssconf_files_name(folders: paths.Paths, master: str, code: int) -> None:
    join(folders, "node1")
    name_master(folders, master)
    assert exit_code(folders) == code


def test_a_machine_outside_of_a_cluster_is_not_the_master(folders: paths.Paths) -> None:
    assert exit_code(folders) == 1


def test_a_machine_that_has_just_created_its_cluster_is_the_master(folders: paths.Paths) -> None:
    join(folders, "node1")
    assert exit_code(folders) == 1
    Path(folders.config).write_text("{}")
    assert exit_code(folders) == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", "not JSON"])
def test_a_damaged_file_is_reported_and_does_not_make_a_master(
    folders: paths.Paths, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name_master(folders, "node1")
    Path(folders.certificates, "member.json").write_text(content)
    assert exit_code(folders) == 2
    assert capsys.readouterr().err.startswith("gantry-is-master: ")
