"""The reference pages match the code, and every documented object in the code has a text.

``GOLDEN=1 pytest tests/golden`` (``make golden``) rewrites the pages.
"""

import os

import pytest

from tools import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    page, text = reference.FOLDER / name, reference.PAGES[name]()
    if os.environ.get("GOLDEN"):
        page.write_text(text)
    assert page.read_text() == text, f"docs/reference/{name} is not up to date: make golden"


def test_the_folder_of_the_commands_has_no_page_of_a_program_that_is_gone() -> None:
    pages = {f"commands/{page.name}" for page in (reference.FOLDER / "commands").iterdir()}
    assert pages <= set(reference.PAGES)


def test_opcodes_fields_options_and_parameters_have_a_text() -> None:
    assert not list(reference.missing())
