"""Writes the reference pages."""

from tools import reference

for name, render in reference.PAGES.items():
    page = reference.FOLDER / name
    page.parent.mkdir(exist_ok=True)
    page.write_text(render())
