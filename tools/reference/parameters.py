"""The page of the parameters, from their classes."""

from collections.abc import Iterator

from gantry.model import parameters, policy
from tools.reference import page

ABOUT = """
Parameters are set at [several levels](../how-to/parameters.md): for the cluster, a node group, an operating system, a
node, an instance. The nearest level wins, and only explicit settings are stored. The value `default` removes a
setting.
"""

CLASSES = {
    "Cluster": (parameters.CLUSTER, "Settings of the cluster itself; [how to change them](../how-to/settings.md)."),
    "Backend": (parameters.BACKEND, "`-B`; `memory` sets `minmem` and `maxmem` together."),
    "NIC": (
        parameters.NIC,
        "`-N`, or `mode`, `link` and `vlan` of `--net`; a NIC with a network has its network's.",
    ),
    "Node": (parameters.NODE, "`--node-parameters` of the cluster, a node group, a node."),
    **{
        f"Disk {template}": (known, f"`-D {template}:...` of the cluster and of a node group.")
        for template, known in parameters.DISK.items()
        if known
    },
    "Policy": (
        policy.SPECS,
        "The sizes that `--ipolicy-bounds-specs` bounds. The defaults are those of the standard instance; nothing is "
        "bounded by default.",
    ),
    **{f"Hypervisor {name}": (known, f"`-H {name}:...`") for name, known in parameters.HYPERVISORS.items()},
}
"""Title of a section to its parameters and how they are set."""


def render() -> str:
    """Return the page."""
    lines: list[str] = []
    for title, (known, about) in CLASSES.items():
        rows = [
            (
                page.code(name),
                page.code(str(parameter.default)) or "empty",
                ", ".join(map(page.code, parameter.choices)),
                parameter.text,
            )
            for name, parameter in known.items()
        ]
        lines += [f"## {title}", "", about, "", *page.table(("parameter", "default", "values", ""), rows)]
    return page.render("Parameters", ABOUT, lines)


def missing() -> Iterator[str]:
    """Yield each parameter without a text."""
    for title, (known, _) in CLASSES.items():
        yield from (f"parameter {title} {name}" for name, parameter in known.items() if not parameter.text)
