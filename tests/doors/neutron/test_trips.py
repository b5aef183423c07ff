"""How often the Neutron API calls the master for one request."""

import pytest
from tests.doors.neutron.talk import MEMBER, NETWORKS, POOLS, PORTS, RANGES, SUBNETS, Object, Talk

from gantry.rpc import luxi


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of LUXI that were called, in order."""
    called: list[str] = []
    call = luxi.Client.call

    async def counted(self: luxi.Client, kind: type[object], method: str, *arguments: object) -> object:
        called.append(method)
        return await call(self, kind, method, *arguments)

    monkeypatch.setattr(luxi.Client, "call", counted)
    return called


def _created(client: Talk, calls: list[str], path: str, values: Object, *, who: str) -> Object:
    """Create an object, and check that this was one call of the master."""
    calls.clear()
    created = client.add(path, values, who=who)
    assert calls == ["RunJob"], f"POST {path} by {who}"
    return created


@pytest.mark.parametrize("who", ["admin", MEMBER])
def test_each_post_is_one_trip_to_the_master(clean: Talk, calls: list[str], who: str) -> None:
    clean.add(POOLS, {"prefixes": ["10.0.0.0/16"], "is_default": True, "shared": True})
    pool = _created(clean, calls, POOLS, {"prefixes": ["10.1.0.0/16"]}, who=who)
    network = _created(clean, calls, NETWORKS, {"name": "front"}, who=who)
    within = {"network_id": network["id"], "ip_version": 4}
    _created(clean, calls, SUBNETS, {**within, "cidr": "10.2.0.0/24"}, who=who)
    _created(clean, calls, SUBNETS, {**within, "subnetpool_id": pool["id"], "prefixlen": 24}, who=who)
    cut = _created(clean, calls, SUBNETS, {**within, "use_default_subnetpool": True, "prefixlen": 24}, who=who)
    assert str(cut["cidr"]).startswith("10.0.")
    _created(clean, calls, PORTS, {"network_id": network["id"]}, who=who)


def test_a_post_of_a_segment_range_is_one_trip_with_what_is_free_in_it(clean: Talk, calls: list[str]) -> None:
    values: Object = {"name": "lab", "network_type": "vxlan", "minimum": 5000, "maximum": 5003, "shared": True}
    created = _created(clean, calls, RANGES, values, who="admin")
    assert (created["available"], created["used"]) == ([5000, 5001, 5002, 5003], {})


def test_a_refused_post_changes_nothing(clean: Talk, calls: list[str]) -> None:
    hidden = clean.add(NETWORKS, {"name": "hidden"}, who="ben")
    calls.clear()
    clean.refused("POST", PORTS, {"port": {"network_id": hidden["id"]}}, who=MEMBER)
    assert calls == ["RunJob"]
    assert clean.get(PORTS).all("ports") == []


def test_a_page_without_objects_is_one_trip(clean: Talk, calls: list[str]) -> None:
    assert clean.get(f"{NETWORKS}?limit=2").all("networks") == []
    assert calls == ["Query"]


def test_reading_listing_changing_and_removing_a_segment_range_is_one_trip_each(clean: Talk, calls: list[str]) -> None:
    values: Object = {"name": "lab", "network_type": "vxlan", "minimum": 5000, "maximum": 5003, "shared": True}
    item = f"{RANGES}/{clean.add(RANGES, values)['id']}"
    calls.clear()
    assert clean.get(item).object("network_segment_range")["available"] == [5000, 5001, 5002, 5003]
    assert calls == ["Query"]
    calls.clear()
    assert len(clean.get(f"{RANGES}?name=lab").all("network_segment_ranges")) == 1
    assert calls == ["Query"]
    calls.clear()
    changed = clean.say("PUT", item, {"network_segment_range": {"maximum": 5001}})
    assert changed.object("network_segment_range")["available"] == [5000, 5001]
    assert calls == ["RunJob"]
    calls.clear()
    assert clean.say("DELETE", item).status == 204
    assert calls == ["RunJob"]
