"""The rules of access in the state: how ``model.access.decide`` finds them, and the end of rules with their object.

The roles of API tokens end with their object too: a new object with the UUID of a removed one must not have them.
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

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


def token_of(state: content.Content, subject: access.Subject) -> access.Token | None:
    """Return the token of a subject, for ``decide``; None without one, or if it was revoked."""
    return state.apitokens.get(subject.token.uuid) if subject.token else None


def check(after: content.Content, value: access.Rule | access.Token) -> None:
    """Refuse a rule, or a role of a token, about an object that does not exist; raises NotFoundError."""
    noun, roles = ("access rule", (value,)) if isinstance(value, access.Rule) else ("API token", value.roles)
    for each in roles:
        collection = _COLLECTIONS.get(each.scope)
        if collection and each.object not in after.collection(collection):
            raise errors.NotFoundError(f"{noun}: no such {kinds.KINDS[collection].noun}: {each.object}")


def ended(state: content.Content, changes: Iterable[kinds.Change]) -> list[kinds.Change]:
    """Return the removal of rules, and of roles of tokens, about objects that ``changes`` to ``state`` delete."""
    changes = list(changes)
    keys = {
        change.key for change in changes if isinstance(change, kinds.Delete) and change.kind in _COLLECTIONS.values()
    }
    rules = [kinds.Delete("accessrules", uuid) for key in sorted(keys) for uuid in state.rules_on.get(key) or ()]
    # A token that the same transaction puts or deletes is checked as it will be.
    changed = {change.key for change in changes if change.kind == "apitokens"}
    uuids = {uuid for key in keys for uuid in state.tokens_on.get(key) or ()} - changed
    return [*rules, *(kinds.Put(_without(state.apitokens[uuid], keys)) for uuid in sorted(uuids))]


def _without(token: access.Token, keys: set[str]) -> access.Token:
    roles = tuple(each for each in token.roles if each.key not in keys)
    return structs.replace(token, roles=roles, serial_no=token.serial_no + 1)
