"""JSON merge patches (RFC 7386): apply, and compute from two values; JSON patches (RFC 6902): apply.

Used to write only changed fields, and by the embedded API server. Pure: arguments are not modified.
"""

import copy
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from gantry import errors
from gantry.kubernetes.api import schema


def difference(old: schema.Json, new: schema.Json) -> schema.Json:
    """Return the merge patch that turns ``old`` into ``new``; empty if they are equal."""
    patch: schema.Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch


def merge(value: object, patch: object) -> object:
    """Apply a merge patch to a value."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), item)
    return out


def are_equal(left: object, right: object) -> bool:
    """Return whether two JSON values are equal (RFC 6902 4.6): 1 and 1.0 are, by their value; 1 and true are not."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(are_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(are_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


class Operation(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """One operation of a JSON patch; ``path`` and ``source`` are JSON pointers such as ``/spec/pools/0``."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: Annotated[str, msgspec.Meta(pattern="^(/|$)")]
    source: Annotated[str, msgspec.Meta(pattern="^(/|$)")] = ""
    value: object = None


MAX_COPIED_BYTES = 3 << 20
"""Maximum total bytes that the copy operations of a JSON patch may copy."""

_INDEX = re.compile("0|[1-9][0-9]{0,8}")


def apply_json_patch(value: object, operations: Sequence[Operation]) -> object:
    """Apply a JSON patch; WrongStateError if a path does not exist or a test fails.

    NoRoomError if it copies too much: copying a value into itself doubles it each time.
    """
    document, remaining = {"": copy.deepcopy(value)}, MAX_COPIED_BYTES
    for operation in operations:
        value = copy.deepcopy(operation.value)
        match operation.op:
            case "add":
                _add(document, operation.path, value)
            case "remove":
                _remove(document, operation.path)
            case "replace":
                _remove(document, operation.path)
                _add(document, operation.path, value)
            case "move":
                _add(document, operation.path, _remove(document, operation.source))
            case "copy":
                copied = _value_at(document, operation.source)
                remaining -= len(msgspec.json.encode(copied))
                if remaining < 0:
                    raise errors.NoRoomError(f"the patch copies more than {MAX_COPIED_BYTES} bytes")
                _add(document, operation.path, copy.deepcopy(copied))
            case "test":
                if not are_equal(_value_at(document, operation.path), value):
                    raise errors.WrongStateError(f"testing value {operation.path} failed")
    if "" not in document:
        raise errors.WrongStateError("the patch removes the whole object")
    return document[""]


def _keys(pointer: str) -> list[str]:
    """Split a JSON pointer into its keys; the first is empty and refers to the document."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _value_at(value: object, pointer: str, *, up: int = 0) -> object:
    steps = _keys(pointer)
    for step in steps[: len(steps) - up]:
        if isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            raise errors.WrongStateError(f"the path {pointer} does not exist")
    return value


def _add(document: object, pointer: str, value: object) -> None:
    parent, step = _value_at(document, pointer, up=1), _keys(pointer)[-1]
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list) and step == "-":
        parent.append(value)
    elif isinstance(parent, list) and _INDEX.fullmatch(step) and int(step) <= len(parent):
        parent.insert(int(step), value)
    else:
        raise errors.WrongStateError(f"the path {pointer} does not exist")


def _remove(document: object, pointer: str) -> object:
    parent, step = _value_at(document, pointer, up=1), _keys(pointer)[-1]
    removed = _value_at(document, pointer)
    if isinstance(parent, dict):
        del parent[step]
    elif isinstance(parent, list):
        del parent[int(step)]
    return removed
