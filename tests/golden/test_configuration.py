"""The files in deploy/etc are what the parsers of the daemons say, and the daemons accept them.

``GOLDEN=1 pytest tests/golden`` (``make golden``) rewrites the files.
"""

import os
import re

import pytest
from tools.reference import configuration

from gantry.daemons.options import config_file
from gantry.runtime import real


@pytest.mark.parametrize("name", configuration.PROGRAMS)
def test_a_file_states_each_key_with_its_default(name: str) -> None:
    path, text = configuration.FOLDER / name, configuration.example(name)
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"deploy/etc/{name} is not up to date: make golden"


@pytest.mark.parametrize("name", configuration.PROGRAMS)
def test_a_file_with_all_defaults_uncommented_changes_nothing(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program, path = configuration.PROGRAMS[name], tmp_path_factory.mktemp("etc") / name
    path.write_text(re.sub(r"^#(?=[a-z-]+ = )", "", (configuration.FOLDER / name).read_text(), flags=re.MULTILINE))
    values, faults = config_file.read(program, str(path), real.RealRuntime().disk)
    assert not faults
    tables = config_file.tables(program, program.command_line())
    expected = {table: {each.dest: each.default for each in options.values()} for table, options in tables.items()}
    assert values == expected


def test_the_folder_has_no_file_of_a_program_that_is_gone() -> None:
    assert {path.name for path in configuration.FOLDER.iterdir()} == set(configuration.PROGRAMS)
