"""The page of the Kubernetes resources, from their definitions."""

from collections.abc import Iterator

from gantry.kubernetes.api import definitions, schema
from tools.reference import page

ABOUT = """
The resources that [controllers](../how-to/kubernetes-controllers.md) work with and [the embedded API
server](../how-to/kubernetes-embedded.md) serves, field by field. Of the kinds outside `ipam.metal3.io`, which other
projects define, the page shows only the fields that Gantry reads or writes; other fields are kept unchanged. Metadata
are the same as everywhere in Kubernetes. Where a kind has several versions, the fields are those of the first.

Gantry reads these annotations and labels: `ipAddress` on an IPClaim asks for an address; `gantry/network` on an IPPool
[binds it](../how-to/kubernetes-controllers.md#addresses-of-a-clusters-network) to a network of a cluster;
`cluster.x-k8s.io/paused` on anything stops work on it; the label `cluster.x-k8s.io/watch-filter` is compared with
`--watch-filter`.
"""


def render() -> str:
    """Return the page."""
    lines: list[str] = []
    for definition in definitions.DEFINITIONS:
        lines += [
            f"## {definition.kind} ({definition.group})",
            "",
            definition.text or page.text(definition.resource),
            "",
        ]
        lists = (
            ("versions", definition.versions),
            ("short names", definition.short_names),
            ("columns", [c.name for c in definition.columns]),
        )
        lines += [f"- {name}: {', '.join(map(page.code, listed))}" for name, listed in lists if listed]
        whole = definition.schema(definition.versions[0], without=frozenset(("apiVersion", "kind", "metadata")))
        lines += ["", *page.table(("field", "type", "rules", ""), _fields(whole, ""))]
    return page.render("Kubernetes resources", ABOUT, lines)


def _fields(node: schema.Node, within: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each field below a node, with its path."""
    for name, child in node.properties.items():
        items = child.items if child.items else child
        kind = {"array": "list of ", "object": "map of " if child.items else ""}.get(child.type, "")
        yield page.code(f"{within}{name}"), f"{kind}{items.type or 'any'}", _limits(child.rule), child.rule.text
        # The parts of a reference are the same everywhere.
        if not child.rule.atomic:
            yield from _fields(items, f"{within}{name}{'[]' if child.type == 'array' else ''}.")


def _limits(rule: schema.Rule) -> str:
    limits = (
        "required" if rule.required else "",
        f"one of {', '.join(rule.enum)}" if rule.enum else "",
        f"{rule.minimum} or more" if rule.minimum is not None and rule.maximum is None else "",
        f"{rule.minimum or 0} to {rule.maximum}" if rule.maximum is not None else "",
        f"{rule.max_items} at most" if rule.max_items else "",
        f"default {rule.default}" if rule.default is not None else "",
    )
    return ", ".join(filter(None, limits))
