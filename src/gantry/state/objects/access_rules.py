"""The rules of access in the state: how ``model.access.decide`` finds them, and the end of rules with their object."""

from collections.abc import Iterable, Iterator

from gantry import errors
from gantry.model import access
from gantry.state.objects import content, kinds

_COLLECTIONS = {
    access.Scope.GROUP: "nodegroups",
    access.Scope.INSTANCE: "instances",
    access.Scope.NETWORK: "networks",
}
"""The collections of the objects that rules name by UUID."""


def finder(state: content.Content) -> access.Find:
    """Return the function that finds the rules of a user or group on a scope. Cost of a call: a look into an index."""

    def find(who: str, key: str) -> Iterator[access.Rule]:
        return (state.accessrules[uuid] for uuid in state.rules_for.get(f"{who} {key}") or ())

    return find


def has_rules(state: content.Content, names: Iterable[str]) -> bool:
    """Return whether one of these users or groups has a rule."""
    return any(who in state.rules_of for who in names)


def check(after: content.Content, rule: access.Rule) -> None:
    """Refuse a rule about an object that does not exist; raises NotFoundError."""
    collection = _COLLECTIONS.get(rule.scope)
    if collection and rule.object not in after.collection(collection):
        raise errors.NotFoundError(f"access rule: no such {kinds.KINDS[collection].noun}: {rule.object}")


def ended(state: content.Content, changes: Iterable[kinds.Change]) -> list[kinds.Change]:
    """Return the removal of the rules about objects that ``changes``, to be applied to ``state``, delete."""
    return [
        kinds.Delete("accessrules", uuid)
        for change in changes
        if isinstance(change, kinds.Delete) and change.kind in _COLLECTIONS.values()
        for uuid in state.rules_on.get(change.key) or ()
    ]
