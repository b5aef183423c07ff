"""Lists of the Neutron door: fields, filters, sorting and pages (contracts/neutron-api.md#lists).

``read`` checks a query against the table of a resource, before anything is asked of the master; the master gets what
it can filter by itself, the rest is looked at here, on values as they are shown.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final
from urllib import parse

from gantry.doors.neutron import attributes, faults, master, values

_PAGING = ("limit", "marker", "page_reverse")
_OTHERS: Final = frozenset({"fields", "sort_key", "sort_dir", *_PAGING})
TAG_FILTERS: Final = ("tags", "tags-any", "not-tags", "not-tags-any")

Shown = dict[str, object]


@dataclass(frozen=True)
class Listing:
    """What a query asks for: wanted values by attribute, order as attribute and whether it falls, and the page."""

    fields: tuple[str, ...]
    wanted: Mapping[str, Sequence[object]]
    tags: Mapping[str, frozenset[str]]
    order: Sequence[tuple[str, bool]]
    limit: int
    marker: str
    reverse: bool

    @property
    def looked_at(self) -> set[str]:
        """Return the attributes that decide which rows there are, and in which order."""
        return {"id", *self.wanted, *(name for name, _ in self.order), *(["tags"] if self.tags else [])}


def read(table: attributes.Table, query: Mapping[str, Sequence[str]], *, admin: bool) -> Listing:
    """Return what a query asks for; FaultError 400."""
    query = {"project_id" if name == "tenant_id" else name: given for name, given in query.items()}
    filters = [name for name in query if name not in _OTHERS and name not in TAG_FILTERS]
    unknown = [name for name in filters if name not in table or not table[name].filter]
    if unknown:
        raise faults.bad_request(f"{unknown} is invalid attribute for filtering")
    hidden = [] if admin else [name for name in filters if table[name].admin]
    if hidden:
        raise faults.forbidden(f"get:{hidden[0]}")
    return Listing(
        fields=tuple(query.get("fields", ())),
        wanted={name: [_typed(table[name], one) for one in query[name]] for name in filters},
        tags={name: frozenset(",".join(query[name]).split(",")) for name in TAG_FILTERS if name in query},
        order=_order(table, query),
        limit=_limit((query.get("limit") or ["0"])[-1]),
        marker=(query.get("marker") or [""])[-1],
        reverse=(query.get("page_reverse") or [""])[-1].lower() in ("true", "1"),
    )


def _typed(attribute: attributes.Attribute, text: str) -> object:
    """Return the value of a filter as the attribute is shown."""
    if attribute.convert in (values.boolean, values.integer, values.integer_or_none, values.lower):
        return attribute.convert(text)
    return text


def _order(table: attributes.Table, query: Mapping[str, Sequence[str]]) -> list[tuple[str, bool]]:
    keys, directions = list(query.get("sort_key", ())), list(query.get("sort_dir", ()))
    if len(keys) != len(directions):
        raise faults.bad_request("The number of sort_keys and sort_dirs must be same")
    wrong = [one for one in directions if one not in ("asc", "desc")]
    if wrong:
        raise faults.bad_request(f"{wrong} is invalid value for sort_dirs, valid value is 'asc' and 'desc'")
    wrong = [one for one in keys if one not in table or not table[one].sort]
    if wrong:
        raise faults.bad_request(f"{wrong} is invalid attribute for sort_keys")
    return [(key, direction == "desc") for key, direction in zip(keys, directions, strict=True)]


def _limit(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) < 10:
        return int(text)
    raise faults.FaultError(
        400, "BadRequest", f"Bad limit request: Limit must be an integer 0 or greater and not '{text}'."
    )


def question(table: attributes.Table, listing: Listing, *, visible: master.Filter | None) -> master.Filter | None:
    """Return the part of the filters that the master can answer; ``visible`` is what somebody may see, None all."""
    parts: list[object] = []
    for name, wanted in listing.wanted.items():
        field = table[name].field
        if field and all(isinstance(one, str | int) and not isinstance(one, bool) for one in wanted):
            parts.append(["|", *(["=", field, one] for one in wanted)])
    if visible is not None:
        parts.append(visible)
    return ["&", *parts] if parts else None


def chosen(rows: Iterable[Shown], listing: Listing) -> list[Shown]:
    """Return the rows that all filters let pass, in order."""
    wanted = {name: frozenset(given) for name, given in listing.wanted.items()}
    found = [row for row in rows if _passes(row, wanted, tags=listing.tags)]
    found.sort(key=lambda row: str(row["id"]))
    for name, falls in reversed(listing.order):
        found.sort(key=functools.partial(_sort_key, name), reverse=falls)
    return found


def _passes(row: Shown, wanted: Mapping[str, Set[object]], *, tags: Mapping[str, Set[str]]) -> bool:
    return all(_fits(row.get(name), values) for name, values in wanted.items()) and all(
        _has(row.get("tags"), kind, given) for kind, given in tags.items()
    )


def _fits(value: object, wanted: Set[object]) -> bool:
    if isinstance(value, list):
        return _has_items(value, map(str, wanted))
    return value in wanted or (isinstance(value, int) and str(value) in wanted)


def _has_items(items: Sequence[Mapping[str, object]], wanted: Iterable[str]) -> bool:
    """Tell whether for each key that is asked for, as ``key=value``, an item has one of its values."""
    texts: dict[str, list[str]] = {}
    for key, _, text in (one.partition("=") for one in wanted):
        texts.setdefault(key, []).append(text)
    return all(any(_is_one(item, key, of_key) for item in items) for key, of_key in texts.items())


def _is_one(item: Mapping[str, object], key: str, texts: Sequence[str]) -> bool:
    own = str(item.get(key.removesuffix("_substr")))
    return any(text in own for text in texts) if key.endswith("_substr") else own in texts


def _has(value: object, kind: str, tags: Set[str]) -> bool:
    own = set(value) if isinstance(value, list) else set()
    found = bool(own & tags) if kind.endswith("-any") else tags <= own
    return found is not kind.startswith("not-")


def _sort_key(name: str, row: Shown) -> tuple[bool, object]:
    """Return what orders rows by an attribute; those that have none come first."""
    value = row.get(name)
    return (value is not None, value if isinstance(value, int) else str(value))


def page(rows: list[Shown], listing: Listing) -> list[Shown]:
    """Return the rows of one page; a marker that is unknown, or without a limit, is not looked at (recorded)."""
    if not listing.limit:
        return rows
    at = next((index for index, row in enumerate(rows) if row["id"] == listing.marker), None)
    if listing.reverse:
        return rows[: len(rows) if at is None else at][-listing.limit :]
    return rows[0 if at is None else at + 1 :][: listing.limit]


def links(rows: Sequence[Shown], listing: Listing, *, address: str, query: str) -> list[dict[str, str]]:
    """Return the way to the pages beside this one: ``address`` is the collection's, ``query`` that of the request."""
    if not listing.limit:
        return []
    known = [
        (key, value)
        for key, value in parse.parse_qsl(query, keep_blank_values=True)
        if key not in ("marker", "page_reverse")
    ]
    found = []
    if listing.reverse or len(rows) >= listing.limit:
        found.append(("next", [*known, *([("marker", str(rows[-1]["id"]))] if rows else [])]))
    if not listing.reverse or len(rows) >= listing.limit:
        marker = [("marker", str(rows[0]["id"]))] if rows else []
        found.append(("previous", [*known, *marker, ("page_reverse", "True")]))
    return [{"rel": rel, "href": f"{address}?{parse.urlencode(pairs)}"} for rel, pairs in found]
