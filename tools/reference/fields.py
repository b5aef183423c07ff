"""The page of the query fields, from their registry."""

import re
from collections.abc import Iterator

from gantry.model import fields
from tools.reference import page

ABOUT = """
The fields that lists show (`-o`), that filters compare, and that the LUXI methods `Query` and `QueryFields` know. A
*live* field comes from a node's answer and has no value while the node is offline. Sizes are in MiB, timestamps in
seconds since 1970. Parameters may also be written `hvparam/NAME` and `beparam/NAME`.
"""
NUMBERED = re.compile(r"/\d+$")


def render() -> str:
    """Return the page; the first of the numbered fields stands for all of them."""
    lines: list[str] = []
    for resource, known in fields.REGISTRY.items():
        rows = []
        for field in known.values():
            if NUMBERED.search(field.name) and not field.name.endswith("/0"):
                continue
            name = NUMBERED.sub("/N", field.name)
            text = re.sub(r"(disk|NIC) 0$", r"\1 N", field.doc)
            title = field.title.replace("/0", "/N")
            rows.append((page.code(name), title, field.kind.value + (", live" if field.live else ""), text))
        lines += [f"## {resource}", "", *page.table(("field", "title", "kind", ""), rows)]
    return page.render("Fields", ABOUT, lines)


def missing() -> Iterator[str]:
    """Yield each field without a text."""
    for resource, known in fields.REGISTRY.items():
        yield from (f"field {resource} {field.name}" for field in known.values() if not field.doc)
