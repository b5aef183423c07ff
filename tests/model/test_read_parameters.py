"""Every parameter and every field of an opcode is read by some code, or says that it has no effect."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

import gantry
from gantry.model import opcodes, parameters
from tools import descriptions

SOURCE = Path(gantry.__file__).parent
READERS = ("node", "operations", "jobs", "doors", "daemons", "ipam", "cli/commands", "kubernetes")
PLANNING = {"cpu_speed"}
"""Values that programs outside of Gantry read, to plan capacity."""

COMPOSED = re.compile(r"cpu_(cores|threads|sockets)|spice_.*")
"""Parameters whose names the KVM driver composes."""

HAS_NO_EFFECT = re.compile(r"Accepted for older clients|Older form|Not supported")


@functools.cache
def words() -> frozenset[str]:
    """Return all names in the code that does the work, those with a hyphen also with an underscore."""
    files = (path for reader in READERS for path in (SOURCE / reader).rglob("*.py"))
    return frozenset(word for path in files for word in re.findall(r"[A-Za-z_][\w-]*\w", path.read_text()))


def is_read(name: str) -> bool:
    return name in words() or name.replace("-", "_") in words() or bool(COMPOSED.fullmatch(name))


def test_every_parameter_is_read_by_some_code() -> None:
    known = [parameters.BACKEND, parameters.NIC, parameters.CLUSTER]
    known += [*parameters.HYPERVISORS.values(), *parameters.DISK.values()]
    unread = {name for level in known for name in level if not is_read(name)}
    unread |= {*parameters.NODE} - {*parameters.UNSUPPORTED_NODE} - {name for name in parameters.NODE if is_read(name)}
    assert unread - PLANNING == set()


def _all_opcodes(kind: type[opcodes.Opcode]) -> Iterator[type[opcodes.Opcode]]:
    for below in kind.__subclasses__():
        # Other tests of the same process may have made opcodes of their own.
        if below.__module__.startswith("gantry."):
            yield below
            yield from _all_opcodes(below)


def test_every_field_of_an_opcode_is_read_by_some_code_or_says_that_it_has_no_effect() -> None:
    unread = [
        f"{kind.__name__}.{field.name}"
        for kind in _all_opcodes(opcodes.Opcode)
        for field in _fields(kind)
        if not is_read(field.name) and not HAS_NO_EFFECT.match(descriptions.of(field.type))
    ]
    assert unread == []


def _fields(kind: type[opcodes.Opcode]) -> tuple[msgspec.inspect.Field, ...]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return info.fields
