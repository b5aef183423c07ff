"""The grammar of ``--net`` where the NICs of an instance are changed: text becomes what the opcode takes.

The forms stand below as people are shown them; the values of a NIC are those of ``syntax``. What is not understood
raises ``failures.MalformedError`` (contract: device option grammar; networks seed "Multiple IPs per NIC").
"""

import re
from typing import NoReturn

from gantry.cli import failures, syntax

FORMS = (
    "add:KEY=VALUE,...             behind the last one; PLACE:add,KEY=VALUE,... elsewhere",
    "IDENT:modify,KEY=VALUE,...    IDENT is a number from 0, -1 for the last, a name or a UUID",
    "IDENT:KEY=VALUE,...           the same",
    "IDENT:remove                  remove alone takes the last one away",
    "KEY is ip (the first address), ip0, ip1 ..., network, mac, mode, link, vlan or name",
)
ACTIONS = ("add", "modify", "remove")
LAST = -1

Change = list[object]
"""``[action, id, values]`` (contract: device modifications)."""


def change(text: str) -> Change:
    """Parse one change of a NIC."""
    head, colon, rest = text.partition(":")
    if not re.fullmatch(r"[^=,]+", head) or not (colon or head in ("add", "remove")):
        _fault(text, 0, "it does not say which NIC, or what to do")
    start = len(head) + len(colon)
    try:
        values = syntax.key_values(rest)
        action = head if head in ("add", "remove") else _action(values)
        return [action, LAST if action == head else _ident(head), _values(action, values)]
    except failures.MalformedError:
        raise
    except failures.InvalidError as error:
        _fault(text, start, error.message)


def _action(values: syntax.Values) -> str:
    """Take the action out of the values; without one it is a change."""
    found = [word for word in ACTIONS if values.get(word) is True]
    if len(found) > 1:
        raise failures.InvalidError(f"{' and '.join(found)} exclude each other")
    for word in found:
        del values[word]
    return found[0] if found else "modify"


def _ident(text: str) -> int | str:
    return int(text) if text.isdecimal() or text == str(LAST) else text


def _values(action: str, values: syntax.Values) -> syntax.Structure:
    if action == "add":
        return syntax.nic(values, place="the new NIC")
    if action == "remove" and values:
        raise failures.InvalidError("nothing follows remove")
    if action == "modify" and not values:
        raise failures.InvalidError("there is nothing to modify")
    return syntax.nic_change(values, place="the NIC")


def _fault(text: str, at: int, what: str) -> NoReturn:
    raise failures.MalformedError("--net", text, at=at, what=what, forms=FORMS) from None
