"""The registry of query fields and the getters behind it."""

import pytest

from gantry.model import fields, parameters
from gantry.operations.query import engine


@pytest.mark.parametrize("what", sorted(engine.GETTERS))
def test_every_field_has_a_getter_and_every_getter_a_field(what: str) -> None:
    assert set(fields.REGISTRY[what]) == set(engine.GETTERS[what])


def test_what_is_registered_without_getters_is_what_only_an_opcode_answers() -> None:
    assert set(fields.REGISTRY) - set(engine.GETTERS) == {"os"}


@pytest.mark.parametrize("what", sorted(fields.REGISTRY))
def test_every_field_has_a_title_without_spaces_and_a_text(what: str) -> None:
    for field in fields.REGISTRY[what].values():
        assert field.title, field.name
        assert " " not in field.title, field.name
        assert field.doc, field.name
        assert field.kind is not fields.Kind.UNKNOWN


def test_every_parameter_is_a_field_in_both_spellings() -> None:
    for name in parameters.BACKEND:
        assert fields.canonical(f"beparam/{name}") == f"be/{name}" in fields.REGISTRY["instance"]
    for known in parameters.HYPERVISORS.values():
        for name in known:
            assert fields.canonical(f"hvparam/{name}") == f"hv/{name}" in fields.REGISTRY["instance"]


def test_a_field_is_described_under_the_name_that_was_asked_for() -> None:
    known, unknown, spelled = fields.lookup("instance", ["be/vcpus", "colour", "beparam/vcpus"])
    assert (known.name, known.kind) == ("be/vcpus", fields.Kind.NUMBER)
    assert (unknown.name, unknown.title, unknown.kind) == ("colour", "colour", fields.Kind.UNKNOWN)
    assert spelled.name == "beparam/vcpus"
    assert spelled.kind is known.kind


def test_the_numbered_fields_end_where_disks_and_nics_do() -> None:
    known = fields.REGISTRY["instance"]
    assert {"disk.size/0", "disk.size/15", "nic.ip/0", "nic.ip/7"} <= set(known)
    assert not {"disk.size/16", "nic.ip/8"} & set(known)
