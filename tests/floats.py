"""The numbers in a type that may be infinite or no number: as text, ``inf`` and ``nan`` are numbers for msgspec."""

from collections.abc import Iterator

from msgspec import inspect


def unbounded(kind: object) -> list[str]:
    """Return where a type has a floating-point number without a lower and an upper bound."""
    return sorted(_unbounded(inspect.type_info(kind), "", frozenset()))


def _unbounded(kind: inspect.Type, path: str, above: frozenset[type]) -> Iterator[str]:
    match kind:
        case inspect.FloatType():
            if (kind.ge is None and kind.gt is None) or (kind.le is None and kind.lt is None):
                yield path
        case inspect.UnionType():
            # A text for a text or a number stays a text.
            if not any(isinstance(each, inspect.StrType) for each in kind.types):
                for each in kind.types:
                    yield from _unbounded(each, path, above)
        case inspect.StructType() | inspect.DataclassType() | inspect.NamedTupleType() | inspect.TypedDictType() if (
            kind.cls not in above
        ):
            for field in kind.fields:
                yield from _unbounded(field.type, f"{path}.{field.encode_name}", above | {kind.cls})
        case inspect.DictType():
            yield from _unbounded(kind.value_type, f"{path}[]", above)
        case inspect.TupleType():
            for number, each in enumerate(kind.item_types):
                yield from _unbounded(each, f"{path}[{number}]", above)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            yield from _unbounded(kind.item_type, f"{path}[]", above)
        case inspect.Metadata():
            yield from _unbounded(kind.type, path, above)
