"""Values of any declared message type, for Hypothesis: what msgspec says of a type becomes a strategy."""

import string

from hypothesis import strategies as st
from msgspec import inspect

NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9_.+:@-]{0,20}\Z")
UUIDS = st.uuids().map(str)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
WHOS = st.from_regex(r"\A(user|group):[^\s:]{1,20}\Z")
KNOWN = {
    "^[0-9a-f]{8}": UUIDS,
    "^[0-9a-f]{64}": DIGESTS,
    "^(user|group)": WHOS,
    "^[A-Za-z0-9]{10}": st.from_regex(r"\A[A-Za-z0-9]{10}\Z"),
    "^[A-Za-z0-9][A-Za-z0-9._-]": st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z"),
    "^[a-z0-9][a-z0-9._-]": st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,20}\Z"),
    "^[a-z]+": st.from_regex(r"\A[a-z]{1,9}(\.[a-z]{1,9})?\Z"),
    r"^[^\s:]": st.from_regex(r"\A[^\s:]{1,20}\Z"),
}
"""Values of texts with a pattern, by the beginning of the pattern; all others are names."""
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(string.printable, max_size=8)


def of(kind: type) -> st.SearchStrategy[object]:
    """Return values of a type as msgspec converts them."""
    return _of(inspect.type_info(kind))


def _of(kind: inspect.Type) -> st.SearchStrategy[object]:
    match kind:
        case inspect.Metadata():
            return _of(kind.type)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.IntType():
            return st.integers(kind.ge if kind.ge is not None else -(2**53), kind.le if kind.le is not None else 2**53)
        case inspect.FloatType():
            low, high = (float(bound) if bound is not None else None for bound in (kind.ge, kind.le))
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            if kind.pattern:
                return next((known for start, known in KNOWN.items() if kind.pattern.startswith(start)), NAMES)
            return st.text(min_size=kind.min_length or 0, max_size=min(kind.max_length or 30, 30))
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of(*(_of(member) for member in kind.types))
        case inspect.VarTupleType():
            most = 3 if kind.max_length is None else min(3, kind.max_length)
            return st.lists(_of(kind.item_type), min_size=kind.min_length or 0, max_size=most).map(tuple)
        case inspect.TupleType():
            return st.tuples(*(_of(item) for item in kind.item_types))
        case inspect.DictType():
            return st.dictionaries(_of(kind.key_type), _of(kind.value_type), max_size=3)
        case inspect.StructType():
            return _struct(kind)
        case inspect.AnyType() | inspect.CustomType():
            return st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
    raise NotImplementedError(f"{kind}")


def _struct(kind: inspect.StructType) -> st.SearchStrategy[object]:
    required = {field.name: _of(field.type) for field in kind.fields if field.required}
    optional = {field.name: _of(field.type) for field in kind.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: kind.cls(**fields))
