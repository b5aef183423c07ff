"""The grammar of ``--net`` for existing instances; ``syntax`` parses the values of a NIC."""

from gantry.cli.grammar import changes, syntax

FORMS = (
    "add:KEY=VALUE,...             after the last NIC; INDEX:add,KEY=VALUE,... elsewhere",
    "IDENT:modify,KEY=VALUE,...    IDENT is a number from 0, -1 for the last, a name or a UUID",
    "IDENT:KEY=VALUE,...           the same",
    "IDENT:remove                  remove alone removes the last NIC",
    "KEY is ip (the first address), ip0, ip1 ..., network, mac, mode, link, vlan or name",
)
GRAMMAR = changes.Grammar("--net", "NIC", FORMS, syntax.nic, syntax.nic_change)


def change(text: str) -> changes.Change:
    """Parse one change of a NIC."""
    return GRAMMAR.change(text)
