"""Selectors: filter a list or a watch by labels and by fields (contract: S12).

environment=production,tier in (web, db),!canary        labels
metadata.name=x,metadata.namespace!=y                   fields; more for Events and Namespaces
"""

import re

import msgspec

from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import resources, status_errors, watch_cache

_TERM = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s,()=!]+)
      | (?P<key>[^\s,()=!]+)\s*(?:(?P<sign>==|=|!=)\s*(?P<value>[^\s,()=!]*)
                              |\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS = {
    resources.EVENTS.plural: (
        "reason",
        "type",
        "reportingComponent",
        *(f"involvedObject.{one}" for one in _EVENT_FIELDS),
    ),
    resources.NAMESPACES.plural: ("status.phase",),
}


class Term(msgspec.Struct, frozen=True):
    """A requirement: the key has one of these values, or exists if there are none; ``negated``: the opposite."""

    key: str
    values: tuple[str, ...] = ()
    negated: bool = False

    def matches(self, value: str | None) -> bool:
        """Return whether a value, None if absent, satisfies the requirement."""
        found = value is not None if not self.values else value in self.values
        return found != self.negated


def terms(text: str) -> list[Term]:
    """Parse a selector into its requirements, all of which must match; StatusError 400."""
    out, place = [], 0
    while place < len(text):
        found = _TERM.match(text, place)
        if not found:
            raise status_errors.bad(f"unable to parse requirement: {text[place:]!r}")
        out.append(_term(found))
        place = found.end()
    return out


def _term(found: re.Match[str]) -> Term:
    if found["absent"]:
        return Term(found["absent"], negated=True)
    if found["set"]:
        values = tuple(one.strip() for one in found["values"].split(","))
        return Term(found["key"], values, found["set"] == "notin")
    if found["sign"]:
        return Term(found["key"], (found["value"],), found["sign"] == "!=")
    return Term(found["key"])


def predicate(target: resources.Target, labels: str, fields: str) -> watch_cache.Predicate:
    """Return a predicate for the objects of a target that match the selectors; StatusError 400."""
    by_label, by_field = terms(labels), terms(fields)
    known = _FIELDS.get(target.definition.plural, ()) if not target.definition.group else ()
    for term in by_field:
        if term.key not in ("metadata.name", "metadata.namespace", *known):
            raise status_errors.bad(f"field label not supported: {term.key}")

    namespace, name = target.namespace, target.name

    def matches(item: watch_cache.Item) -> bool:
        if (namespace and item.key.namespace != namespace) or (name and item.key.name != name):
            return False
        for term in by_label:
            if not term.matches(item.labels.get(term.key)):
                return False
        return not by_field or all(term.matches(_field(item, term.key)) for term in by_field)

    return matches


def _field(item: watch_cache.Item, path: str) -> str:
    if path == "metadata.name":
        return item.key.name
    if path == "metadata.namespace":
        return item.key.namespace
    value: object = msgspec.json.decode(item.body, type=schema.Json)
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
