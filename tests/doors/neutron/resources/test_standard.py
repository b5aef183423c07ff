"""Attributes that all resources have."""

from gantry.doors.neutron.resources import standard


def test_a_read_only_attribute_is_no_filter_unless_it_is_declared_as_one() -> None:
    usual = standard.read_only("mtu", "text", "mtu", show=standard.plain("mtu"))
    filtered = standard.read_only("mtu", "text", "mtu", show=standard.plain("mtu"), filtered=True)
    assert (usual.filter, filtered.filter) == (False, True)
    assert (usual.post, usual.put) == (False, False)


def test_tags_are_sorted() -> None:
    assert standard.tags({"tags": ["b", "c", "a"]}) == ["a", "b", "c"]
    assert standard.tags({}) == []
