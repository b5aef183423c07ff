"""The ``list`` and ``list-fields`` commands of all programs, and the ``Listing`` that declares one resource for them.

The arguments of ``list`` are names, names with ``*`` and ``?``, or one filter (contracts/query.md#text-filters).
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gantry.cli import client, errors
from gantry.cli.framework import command
from gantry.cli.grammar import filters, syntax
from gantry.cli.output import tables

LIST_TEXT = """
    The arguments are names, names with * and ?, or one filter, like
      'mfree > 1024 and not offline'    'name =~ m/web.*/'    '"blue" in tags'
"""


class Listing(NamedTuple):
    """A resource of ``list``: its name on the wire, its default columns, and the field that names an object."""

    resource: str
    columns: tuple[str, ...]
    name: str = "name"
    formatters: Mapping[str, tables.Formatter] = tables.NO_FORMATTERS


def commands(
    listing: Listing, nouns: str, *, arguments: tuple[command.Argument, ...]
) -> tuple[command.Command, command.Command]:
    """Declare the ``list`` and ``list-fields`` commands of a resource."""
    kind = f"{listing.resource}-field" if listing.resource in command.FIELD_LISTS else ""
    columns = (option._replace(completes=kind) if option.target == "output" else option for option in command.QUERY)
    options = (*columns, *command.FILTER)
    names = (command.Argument("FIELD", minimum=0, maximum=None, completes=kind),)
    return (
        command.Command("list", lambda call: show(call, listing), f"List {nouns}", arguments, options, text=LIST_TEXT),
        command.Command(
            "list-fields",
            lambda call: show_fields(call, listing),
            "List the columns that the list can have",
            names,
            command.FIELDS_QUERY,
        ),
    )


def show(call: command.Call, listing: Listing, *, where: filters.Filter | None = None) -> int:
    """Print the objects that match both the arguments and ``where``."""
    columns = chosen_columns(call.options.output, listing.columns)
    table = call.client.query(listing.resource, columns, where=matching(call, listing, where))
    return print_table(call, table, formatters=listing.formatters)


def matching(call: command.Call, listing: Listing, where: filters.Filter | None) -> filters.Filter | None:
    """Return the filter for the objects that match both the arguments and ``where``."""
    return filters.all_of(where, _from_arguments(call, listing))


def show_fields(call: command.Call, listing: Listing) -> int:
    """Print the fields of a resource, all or those that the arguments name."""
    return print_fields(call, call.client.fields(listing.resource, call.arguments or None))


def print_fields(call: command.Call, fields: Sequence[client.Field]) -> int:
    """Print fields as a table of name, type, title and description."""
    titles = ("Name", "Type", "Title", "Description")
    heads = [client.Field(title.lower(), title, "text", "") for title in titles]
    rows: list[client.Row] = [
        [(0, value) for value in (field.name, field.kind, field.title, field.doc)] for field in fields
    ]
    print_table(call, client.Table(heads, rows))
    return _warn_of_unknown(fields)


def print_table(
    call: command.Call, table: client.Table, *, formatters: Mapping[str, tables.Formatter] = tables.NO_FORMATTERS
) -> int:
    """Print a table in the format that the options set; return UNKNOWN_FIELD if a column does not exist, or 0."""
    style = tables.Style(
        format=call.option("format"),
        headers=not call.option("no_headers"),
        separator=call.option("separator"),
        units=call.option("units") or "",
        verbose=bool(call.option("verbose")),
    )
    text = tables.render(table, style, formatters)
    if text:
        print(text)
    return _warn_of_unknown(table.fields)


def chosen_columns(option: str | None, default: Sequence[str]) -> list[str]:
    """Return the columns of ``-o``: a list, which a leading ``+`` appends to the default columns."""
    if not option:
        return list(default)
    more = syntax.words(option.removeprefix("+"))
    return [*default, *more] if option.startswith("+") else more


def names_filter(names: Sequence[str], listing: Listing) -> filters.Filter | None:
    """Return the filter for objects with these names; a name with ``*`` or ``?`` is a pattern."""
    if listing.name == "id":
        return filters.any_of("id", [syntax.number(name) for name in names])
    if any(character in name for name in names for character in "*?"):
        return ["|", *(filters.glob(listing.name, name) for name in names)]
    return filters.any_of(listing.name, names)


def _from_arguments(call: command.Call, listing: Listing) -> filters.Filter | None:
    if call.option("filter") or filters.looks_like(call.arguments):
        if len(call.arguments) != 1:
            raise errors.InvalidError("-F takes exactly one argument, the filter")
        return filters.parse(call.arguments[0])
    return names_filter(call.arguments, listing)


def _warn_of_unknown(fields: Sequence[client.Field]) -> int:
    unknown = [field for field in fields if field.kind == "unknown"]
    if not unknown:
        return 0
    hint = unknown[0].doc or "list-fields shows the known fields"
    print(f"Warning: unknown fields: {', '.join(field.name for field in unknown)}; {hint}", file=sys.stderr)
    return errors.UNKNOWN_FIELD
