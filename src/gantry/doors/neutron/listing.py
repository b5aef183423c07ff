"""Lists of the Neutron API: fields, filters, sorting and pages (contracts/neutron-api.md#lists).

``read`` checks a query by the table of a resource, before any query to the master. The master gets the filters that it
can apply; this module applies the others, to values in their representation.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final
from urllib import parse

from gantry.doors.neutron import attributes, faults, master, values

_PAGING = ("limit", "marker", "page_reverse")
_NOT_FILTERS: Final = frozenset({"fields", "sort_key", "sort_dir", *_PAGING})
TAG_FILTERS: Final = ("tags", "tags-any", "not-tags", "not-tags-any")
_OF_ADDRESS: Final = re.compile(r"[0-9a-f.:]{0,39}")

MAX_SUBSTRINGS: Final = 10
"""The maximum number of texts that a query may look for in addresses: the master tests every address for each text."""

Representation = dict[str, object]


@dataclass(frozen=True)
class Listing:
    """A parsed query: filter values by attribute, the order (attribute, and whether descending), and the page."""

    fields: tuple[str, ...]
    filters: Mapping[str, Sequence[object]]
    tags: Mapping[str, frozenset[str]]
    order: Sequence[tuple[str, bool]]
    limit: int
    marker: str
    reverse: bool

    @property
    def deciding(self) -> set[str]:
        """Return the attributes that filter and sort the rows."""
        return {"id", *self.filters, *(name for name, _ in self.order), *(["tags"] if self.tags else [])}


def read(table: attributes.Table, query: Mapping[str, Sequence[str]], *, admin: bool) -> Listing:
    """Parse a query; FaultError 400."""
    query = {"project_id" if name == "tenant_id" else name: texts for name, texts in query.items()}
    filters = [name for name in query if name not in _NOT_FILTERS and name not in TAG_FILTERS]
    unknown = [name for name in filters if name not in table or not table[name].filter]
    if unknown:
        filterable = (name for name, attribute in table.items() if attribute.filter and (admin or not attribute.admin))
        message = f"{unknown} is invalid attribute for filtering"
        raise faults.bad_request(faults.with_nearest(message, unknown[0], (*filterable, *TAG_FILTERS, *_NOT_FILTERS)))
    hidden = [] if admin else [name for name in filters if table[name].admin]
    if hidden:
        raise faults.forbidden(f"get:{hidden[0]}")
    return Listing(
        fields=tuple(query.get("fields", ())),
        filters={name: [_typed(table[name], text) for text in query[name]] for name in filters},
        tags={name: frozenset(",".join(query[name]).split(",")) for name in TAG_FILTERS if name in query},
        order=_order(table, query),
        limit=_limit((query.get("limit") or ["0"])[-1]),
        marker=(query.get("marker") or [""])[-1],
        reverse=(query.get("page_reverse") or [""])[-1].lower() in ("true", "1"),
    )


def _typed(attribute: attributes.Attribute, text: str) -> object:
    """Return the value of a filter in the type of the attribute's representation."""
    if attribute.convert in (values.boolean, values.integer, values.integer_or_none, values.mac_form):
        return attribute.convert(text)
    return text


def _order(table: attributes.Table, query: Mapping[str, Sequence[str]]) -> list[tuple[str, bool]]:
    keys, directions = list(query.get("sort_key", ())), list(query.get("sort_dir", ()))
    if len(keys) != len(directions):
        raise faults.bad_request("The number of sort_keys and sort_dirs must be same")
    wrong = [direction for direction in directions if direction not in ("asc", "desc")]
    if wrong:
        raise faults.bad_request(f"{wrong} is invalid value for sort_dirs, valid value is 'asc' and 'desc'")
    wrong = [key for key in keys if key not in table or not table[key].sort]
    if wrong:
        message = f"{wrong} is invalid attribute for sort_keys"
        sortable = (name for name, attribute in table.items() if attribute.sort)
        raise faults.bad_request(faults.with_nearest(message, wrong[0], sortable))
    return [(key, direction == "desc") for key, direction in zip(keys, directions, strict=True)]


def _limit(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) < 10:
        return int(text)
    raise faults.FaultError(
        400, "BadRequest", f"Bad limit request: Limit must be an integer 0 or greater and not '{text}'."
    )


def master_filter(table: attributes.Table, listing: Listing, *, visible: master.Filter | None) -> master.Filter | None:
    """Return the filters that the master can apply, with ``visible``, the filter for what the user may see, if any."""
    parts: list[object] = []
    for name, allowed in listing.filters.items():
        field = table[name].field
        if field and all(isinstance(value, str | int) and not isinstance(value, bool) for value in allowed):
            parts.append(["|", *(["=", field, value] for value in allowed)])
        parts += _filters_of_parts(table[name], map(str, allowed))
    if visible is not None:
        parts.append(visible)
    return ["&", *parts] if parts else None


def _filters_of_parts(attribute: attributes.Attribute, pairs: Iterable[str]) -> Iterator[master.Filter]:
    """Yield a filter of the master for each key of the pairs ``key=value`` by which the master can filter.

    A text that no address contains is left out, because the master refuses an invalid or long expression; a filter
    without texts lets nothing pass. Raises FaultError 400 for an unknown key, and for more than ``MAX_SUBSTRINGS``
    parts of addresses.
    """
    texts = _texts_by_key(pairs) if attribute.parts else {}
    known = [key for key, _, _ in attribute.parts]
    for key in texts.keys() - set(known):
        message = f"['{key}'] is invalid key for filtering {attribute.name}"
        raise faults.bad_request(faults.with_nearest(message, key, known))
    for key, operator, field in attribute.parts:
        requested = texts.get(key, [])
        if not requested:
            continue
        if operator == "=~":
            if len(requested) > MAX_SUBSTRINGS:
                raise faults.bad_request(f"A query can have at most {MAX_SUBSTRINGS} values of {key}")
            requested = [re.escape(text) for text in requested if _OF_ADDRESS.fullmatch(text)]
        yield ["|", *([operator, field, text] for text in requested)]


def select(rows: Iterable[Representation], listing: Listing) -> list[Representation]:
    """Return the rows that match all filters, in order."""
    filters = {name: frozenset(allowed) for name, allowed in listing.filters.items()}
    matching = [row for row in rows if _passes(row, filters, tags=listing.tags)]
    matching.sort(key=lambda row: str(row["id"]))
    for name, descending in reversed(listing.order):
        matching.sort(key=functools.partial(_sort_key, name), reverse=descending)
    return matching


def _passes(row: Representation, filters: Mapping[str, Set[object]], *, tags: Mapping[str, Set[str]]) -> bool:
    return all(_fits(row.get(name), allowed) for name, allowed in filters.items()) and all(
        _has(row.get("tags"), kind, names) for kind, names in tags.items()
    )


def _fits(value: object, allowed: Set[object]) -> bool:
    if isinstance(value, list):
        return _has_items(value, map(str, allowed))
    return value in allowed or (isinstance(value, int) and str(value) in allowed)


def _has_items(items: Sequence[Mapping[str, object]], pairs: Iterable[str]) -> bool:
    """Return whether for each key in the pairs ``key=value`` an item has one of the values."""
    texts = _texts_by_key(pairs)
    return all(any(_item_matches(item, key, of_key) for item in items) for key, of_key in texts.items())


def _texts_by_key(pairs: Iterable[str]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for key, _, text in (pair.partition("=") for pair in pairs):
        texts.setdefault(key, []).append(text)
    return texts


def _item_matches(item: Mapping[str, object], key: str, texts: Sequence[str]) -> bool:
    own = str(item.get(key.removesuffix("_substr")))
    return any(text in own for text in texts) if key.endswith("_substr") else own in texts


def _has(value: object, kind: str, tags: Set[str]) -> bool:
    own = set(value) if isinstance(value, list) else set()
    matches = bool(own & tags) if kind.endswith("-any") else tags <= own
    return matches is not kind.startswith("not-")


def _sort_key(name: str, row: Representation) -> tuple[bool, object]:
    """Return the sort key of a row for an attribute; rows without a value come first."""
    value = row.get(name)
    return (value is not None, value if isinstance(value, int) else str(value))


def page(rows: list[Representation], listing: Listing) -> list[Representation]:
    """Return the rows of a page; a marker that is unknown, or without a limit, is ignored (recorded)."""
    if not listing.limit:
        return rows
    position = next((position for position, row in enumerate(rows) if row["id"] == listing.marker), None)
    if listing.reverse:
        return rows[: len(rows) if position is None else position][-listing.limit :]
    return rows[0 if position is None else position + 1 :][: listing.limit]


def links(rows: Sequence[Representation], listing: Listing, *, address: str, query: str) -> list[dict[str, str]]:
    """Return links to the next and previous page; ``address`` is the collection's URL, ``query`` the request's."""
    if not listing.limit:
        return []
    parameters = [
        (key, value)
        for key, value in parse.parse_qsl(query, keep_blank_values=True)
        if key not in ("marker", "page_reverse")
    ]
    pages = []
    if listing.reverse or len(rows) >= listing.limit:
        pages.append(("next", [*parameters, *([("marker", str(rows[-1]["id"]))] if rows else [])]))
    if not listing.reverse or len(rows) >= listing.limit:
        marker = [("marker", str(rows[0]["id"]))] if rows else []
        pages.append(("previous", [*parameters, *marker, ("page_reverse", "True")]))
    return [{"rel": rel, "href": f"{address}?{parse.urlencode(pairs)}"} for rel, pairs in pages]
