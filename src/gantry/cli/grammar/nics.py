"""The grammar of ``--net`` where the NICs of an instance are changed; the values of a NIC are those of ``syntax``."""

from gantry.cli.grammar import changes, syntax

FORMS = (
    "add:KEY=VALUE,...             behind the last one; PLACE:add,KEY=VALUE,... elsewhere",
    "IDENT:modify,KEY=VALUE,...    IDENT is a number from 0, -1 for the last, a name or a UUID",
    "IDENT:KEY=VALUE,...           the same",
    "IDENT:remove                  remove alone takes the last one away",
    "KEY is ip (the first address), ip0, ip1 ..., network, mac, mode, link, vlan or name",
)
GRAMMAR = changes.Grammar("--net", "NIC", FORMS, syntax.nic, syntax.nic_change)


def change(text: str) -> changes.Change:
    """Parse one change of a NIC."""
    return GRAMMAR.change(text)
