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
    for key, one in patch.items():
        if one is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), one)
    return out


class Operation(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """One operation of a JSON patch; ``path`` and ``source`` are JSON pointers such as ``/spec/pools/0``."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: Annotated[str, msgspec.Meta(pattern="^(/|$)")]
    source: Annotated[str, msgspec.Meta(pattern="^(/|$)")] = ""
    value: object = None


MAX_COPIED_BYTES = 3 << 20
"""Maximum total bytes that the copy operations of a JSON patch may copy."""

_INDEX = re.compile("0|[1-9][0-9]*")


def apply_json_patch(value: object, operations: Sequence[Operation]) -> object:
    """Apply a JSON patch; WrongStateError if a path does not exist or a test fails.

    NoRoomError if it copies too much: copying a value into itself doubles it each time.
    """
    whole, left = {"": copy.deepcopy(value)}, MAX_COPIED_BYTES
    for one in operations:
        given = copy.deepcopy(one.value)
        match one.op:
            case "add":
                _add(whole, one.path, given)
            case "remove":
                _remove(whole, one.path)
            case "replace":
                _remove(whole, one.path)
                _add(whole, one.path, given)
            case "move":
                _add(whole, one.path, _remove(whole, one.source))
            case "copy":
                found = _value_at(whole, one.source)
                left -= len(msgspec.json.encode(found))
                if left < 0:
                    raise errors.NoRoomError(f"the patch copies more than {MAX_COPIED_BYTES} bytes")
                _add(whole, one.path, copy.deepcopy(found))
            case "test":
                if _value_at(whole, one.path) != given:
                    raise errors.WrongStateError(f"testing value {one.path} failed")
    return whole[""]


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


def _add(whole: object, pointer: str, value: object) -> None:
    parent, step = _value_at(whole, pointer, up=1), _keys(pointer)[-1]
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list) and step == "-":
        parent.append(value)
    elif isinstance(parent, list) and _INDEX.fullmatch(step) and int(step) <= len(parent):
        parent.insert(int(step), value)
    else:
        raise errors.WrongStateError(f"the path {pointer} does not exist")


def _remove(whole: object, pointer: str) -> object:
    parent, step = _value_at(whole, pointer, up=1), _keys(pointer)[-1]
    found = _value_at(whole, pointer)
    if isinstance(parent, dict):
        del parent[step]
    elif isinstance(parent, list):
        del parent[int(step)]
    return found
