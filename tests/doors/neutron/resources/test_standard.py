"""Attributes that all resources have."""

import pytest

from gantry.doors.neutron import attributes
from gantry.doors.neutron.resources import standard


def test_a_read_only_attribute_is_no_filter_unless_it_is_declared_as_one() -> None:
    usual = standard.read_only("mtu", "text", "mtu", show=standard.plain("mtu"))
    filtered = standard.read_only("mtu", "text", "mtu", show=standard.plain("mtu"), filtered=True)
    assert (usual.filter, filtered.filter) == (False, True)
    assert (usual.post, usual.put) == (False, False)


def test_tags_are_sorted() -> None:
    assert standard.tags({"tags": ["b", "c", "a"]}) == ["a", "b", "c"]
    assert standard.tags({}) == []


def test_a_text_is_by_default_empty_and_of_the_field_of_its_name() -> None:
    name = standard.text("name", "Its name")
    assert (name.name, name.text, name.fields, name.field, name.default) == ("name", "Its name", ("name",), "name", "")
    assert (name.post, name.put, name.filter, name.sort) == (True, True, True, False)
    assert [name.show(row) for row in ({}, {"name": "lan"})] == ["", "lan"]
    assert (name.validate("x" * 255), name.validate("x" * 256)) == (
        None, f"'{'x' * 256}' exceeds maximum length of 255.",
    )  # fmt: skip


def test_a_text_of_another_field_has_the_options_of_its_declaration() -> None:
    label = standard.text("name", "Its name", field="label", sort=True, limit=3, filtered=False)
    assert (label.name, label.fields, label.field) == ("name", ("label",), "label")
    assert (label.filter, label.sort) == (False, True)
    assert [label.show(row) for row in ({"name": "lan"}, {"label": "lan"})] == ["", "lan"]
    assert (label.validate("lan"), label.validate("lans")) == (None, "'lans' exceeds maximum length of 3.")


@pytest.mark.parametrize("default", [True, False])
def test_a_flag_has_a_default_and_is_a_filter(default: bool) -> None:
    shared = standard.flag("shared", "Whether it is shared", default=default)
    assert (shared.name, shared.text, shared.fields) == ("shared", "Whether it is shared", ("shared",))
    assert (shared.post, shared.put, shared.filter, shared.sort) == (True, True, True, True)
    assert shared.default is default
    assert [shared.show(row) for row in ({}, {"shared": True}, {"shared": False})] == [default, True, False]
    assert [shared.convert(value) for value in ("true", 0)] == [True, False]
    assert shared.reserved is attributes.UNSET


def test_a_flag_of_another_field_has_the_options_of_its_declaration() -> None:
    dhcp = standard.flag("enable_dhcp", "Whether it has DHCP", field="dhcp", default=False, put=False, reserved=True)
    assert (dhcp.name, dhcp.fields, dhcp.put) == ("enable_dhcp", ("dhcp",), False)
    assert [dhcp.show(row) for row in ({"enable_dhcp": True}, {"dhcp": True})] == [False, True]
    assert dhcp.reserved is True


def test_a_table_has_attributes_by_name_in_their_order() -> None:
    first, second = standard.text("b", "The first"), standard.text("a", "The second")
    assert list(attributes.table(first, second).items()) == [("b", first), ("a", second)]
