"""Values of the master's answers, as the documents of ``info`` read them: a missing value is empty, not an error."""

from collections.abc import Mapping, Sequence

from gantry.cli.output import documents

Record = Mapping[str, object]


def record(value: object) -> Record:
    """Return a value that is a record, otherwise an empty record."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[object]:
    """Return a value that is a list, otherwise an empty list."""
    return value if isinstance(value, list | tuple) else []


def number(value: object) -> float:
    """Return a value that is a number, otherwise 0."""
    return value if isinstance(value, int | float) else 0


def without_missing(document: Record) -> dict[str, object]:
    """Return the document without missing and empty values."""
    return {key: value for key, value in document.items() if value is not None and value != ""}


def filled(actual: object, own: object) -> dict[str, object]:
    """Return the actual parameters by name; those that the object does not set itself are shown as defaults."""
    values, own_values = record(actual), record(own)
    return {
        name: value if name in own_values else documents.Verbatim(f"default ({value})")
        for name, value in sorted(values.items())
    }
