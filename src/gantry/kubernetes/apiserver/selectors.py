"""Selectors: filter a list or a watch by labels and by fields (contracts/kubernetes-api.md#lists).

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
        *(f"involvedObject.{field}" for field in _EVENT_FIELDS),
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
        is_match = value is not None if not self.values else value in self.values
        return is_match != self.negated


def terms(text: str) -> list[Term]:
    """Parse a selector into its requirements, all of which must match; StatusError 400."""
    requirements, position = [], 0
    while position < len(text):
        match = _TERM.match(text, position)
        if not match:
            raise status_errors.bad(f"unable to parse requirement: {text[position:]!r}")
        requirements.append(_term(match))
        position = match.end()
    return requirements


def _term(match: re.Match[str]) -> Term:
    if match["absent"]:
        return Term(match["absent"], negated=True)
    if match["set"]:
        values = tuple(text.strip() for text in match["values"].split(","))
        return Term(match["key"], values, match["set"] == "notin")
    if match["sign"]:
        return Term(match["key"], (match["value"],), match["sign"] == "!=")
    return Term(match["key"])


def predicate(target: resources.Target, labels: str, fields: str) -> watch_cache.Predicate:
    """Return a predicate for the objects of a target that match the selectors; StatusError 400."""
    by_label, by_field = terms(labels), terms(fields)
    supported = _FIELDS.get(target.definition.plural, ()) if not target.definition.group else ()
    for term in by_field:
        if term.key not in ("metadata.name", "metadata.namespace", *supported):
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
