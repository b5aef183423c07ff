"""Networks, subnets, ports and subnet pools over REST, on a simulated master."""

import pytest
from tests.doors.neutron.talk import (
    ADMIN,
    MEMBER,
    NETWORKS,
    NOWHERE,
    OTHER,
    POOLS,
    PORTS,
    RANGES,
    READER,
    SUBNETS,
    Object,
    Talk,
)

from gantry import errors
from gantry.doors.neutron import attributes, resource
from gantry.doors.neutron.resources import networks, ports, subnets
from gantry.sim import cluster

NO_RANGES = "the cluster has no segment ranges yet; an administrator sets them: gantry segment set --help"
SEGMENT = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")


def _network(client: Talk, name: str = "n", *, who: str = ADMIN, **more: object) -> Object:
    return client.add(NETWORKS, {"name": name, **more}, who=who)


def _subnet(client: Talk, network: Object, cidr: str = "10.0.0.0/28", **more: object) -> Object:
    version = 6 if ":" in cidr else 4
    return client.add(SUBNETS, {"network_id": network["id"], "ip_version": version, "cidr": cidr, **more})


def _port(client: Talk, network: Object, *, who: str = ADMIN, **more: object) -> Object:
    return client.add(PORTS, {"network_id": network["id"], **more}, who=who)


def _addresses(port: Object) -> list[str]:
    fixed = port["fixed_ips"]
    assert isinstance(fixed, list)
    return [each["ip_address"] for each in fixed]


def _changed(client: Talk, path: str, target: Object, *, who: str = ADMIN, **values: object) -> Object:
    name = path.rpartition("/")[2].removesuffix("s")
    answer = client.say("PUT", f"{path}/{target['id']}", {name: values}, who=who)
    assert answer.status == 200, answer
    return answer.object(name)


@pytest.mark.promise("segments-15")
def test_a_network_gets_a_segment_of_the_shared_ranges(clean: Talk) -> None:
    network = _network(clean)
    assert [network[name] for name in SEGMENT] == ["vlan", "physnet1", 100]
    assert clean.get(f"{NETWORKS}/{network['id']}").object("network") == network
    assert network["subnets"] == network["availability_zones"] == network["availability_zone_hints"] == []
    assert [network[name] for name in ("router:external", "vlan_transparent", "qinq")] == [False, False, False]
    assert (network["ipv4_address_scope"], network["ipv6_address_scope"]) == (None, None)
    assert (network["project_id"], network["tenant_id"], network["status"]) == ("default", "default", "ACTIVE")


@pytest.mark.promise("segments-5", "segments-6", "segments-10", "segments-82", "segments-85")
def test_a_project_takes_from_its_own_ranges_and_then_from_the_shared_ones(clean: Talk) -> None:
    own = {"network_type": "vlan", "physical_network": "physnet1", "shared": False, "project_id": "green"}
    clean.add(RANGES, {"minimum": 200, "maximum": 200, **own})
    clean.add(RANGES, {"minimum": 300, "maximum": 300, **own})
    typed = _network(clean, project_id="green", **{SEGMENT[0]: "vlan"})
    ids = {
        clean.get(f"{NETWORKS}/{_network(clean, who=MEMBER)['id']}").object("network")[SEGMENT[2]],
        typed[SEGMENT[2]],
    }
    assert ids == {200, 300}
    assert _network(clean, who=OTHER)["project_id"] == "blue"
    shared = clean.get(f"{NETWORKS}/{_network(clean, who=MEMBER)['id']}").object("network")
    assert [shared[name] for name in SEGMENT] == ["vlan", "physnet1", 101]


def test_a_project_takes_from_its_own_ranges_only_where_projects_are_isolated(
    clean: Talk, lab: cluster.SimulatedCluster
) -> None:
    own = {"network_type": "vlan", "physical_network": "physnet1", "shared": False, "project_id": "green"}
    clean.add(RANGES, {"minimum": 200, "maximum": 200, **own})
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_fallback": False}))
    try:
        _network(clean, who=MEMBER)
        refused = clean.refused("POST", NETWORKS, {"network": {"name": "n"}}, who=MEMBER)
        assert refused == (
            503, "NoNetworkAvailable", "Unable to create the network. No tenant network is available for allocation.",
        )  # fmt: skip
        assert _network(clean, who=OTHER)["project_id"] == "blue"
    finally:
        lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_fallback": "default"}))


def _list_networks(client: Talk, query: str) -> list[Object]:
    return client.get(f"{NETWORKS}?{query}").all("networks")


@pytest.mark.promise("segments-8")
def test_only_an_administrator_names_a_segment(clean: Talk) -> None:
    request = {"provider:network_type": "vxlan", "provider:segmentation_id": 8000}
    rule = "((rule:create_network and rule:create_network:provider:network_type) and "
    rule += "rule:create_network:provider:segmentation_id) is disallowed by policy"
    assert clean.refused("POST", NETWORKS, {"network": request}, who=MEMBER) == (403, "PolicyNotAuthorized", rule)
    network = clean.say("POST", NETWORKS, {"network": request}).object("network")
    assert [network[name] for name in SEGMENT] == ["vxlan", None, 8000]
    taken = clean.refused("POST", NETWORKS, {"network": request})
    assert [each["id"] for each in _list_networks(clean, "provider:segmentation_id=8000")] == [network["id"]]
    assert _list_networks(clean, "provider:segmentation_id=8001") == []
    assert _list_networks(clean, "provider:network_type=vlan&shared=true") == []
    assert taken == (409, "TunnelIdInUse", "Unable to create the network. The tunnel ID 8000 is in use.")
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 402}
    clean.say("POST", NETWORKS, {"network": vlan})
    message = "Unable to create the network. The VLAN 402 on physical network physnet1 is in use."
    assert clean.refused("POST", NETWORKS, {"network": vlan}) == (409, "VlanIdInUse", message)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_change_is_of_one_object(clean: Talk, number: int) -> None:
    network = _network(clean)
    path = f"/v2.0/networks/{network['id']}"
    for more in ({}, {"network": {"name": "changed"}}):
        request = {"networks": [{"name": "changed"}] * number, **more}
        assert clean.refused("PUT", path, request) == (400, "HTTPBadRequest", "Bulk operation not supported")
    assert clean.get(path).object("network")["name"] == network["name"]


def test_the_quota_of_a_subnet_pool_is_a_number_of_the_database_of_neutron(clean: Talk) -> None:
    pool = {"prefixes": ["10.0.0.0/16"], "default_quota": 2**31 - 1}
    assert clean.add(POOLS, pool)["default_quota"] == 2**31 - 1
    assert clean.say("POST", POOLS, {"subnetpool": {**pool, "name": "more", "default_quota": 2**31}}).status == 400


def test_a_project_allocates_no_more_of_a_subnet_pool_than_its_quota(clean: Talk) -> None:
    pool = clean.add(POOLS, {"prefixes": ["10.0.0.0/16"], "default_prefixlen": 24, "default_quota": 256})
    request = {"network_id": _network(clean)["id"], "ip_version": 4, "subnetpool_id": pool["id"]}
    assert clean.add(SUBNETS, request)["cidr"] == "10.0.0.0/24"
    status, kind, message = clean.refused("POST", SUBNETS, {"subnet": request})
    assert (status, kind) == (409, "SubnetPoolQuotaExceeded")
    assert "has used up its quota" in message
    assert clean.get(f"{POOLS}/{pool['id']}").object("subnetpool")["default_quota"] == 256
    unlimited = clean.say("PUT", f"{POOLS}/{pool['id']}", {"subnetpool": {"default_quota": None}})
    assert unlimited.object("subnetpool")["default_quota"] is None
    assert clean.add(SUBNETS, request)["cidr"] == "10.0.1.0/24"


def test_a_network_of_a_node_group_is_in_use(clean: Talk, lab: cluster.SimulatedCluster) -> None:
    network = _network(clean)
    connection: dict[str, object] = {"group_name": "default", "network_name": network["id"]}
    link = {"network_mode": "bridged", "network_link": "br0"}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_CONNECT", **connection, **link}))
    status, kind, message = clean.refused("DELETE", f"{NETWORKS}/{network['id']}")
    assert (status, kind) == (409, "NetworkInUse")
    assert message.startswith(f"Unable to complete operation on network {network['id']}. ")
    assert "is connected to node group default" in message
    lab.run(lab.done({"OP_ID": "OP_NETWORK_DISCONNECT", **connection}))
    assert clean.say("DELETE", f"{NETWORKS}/{network['id']}").status == 204


@pytest.mark.parametrize(
    "segment",
    [
        {"network_type": "flat"}, {"network_type": "vlan", "segmentation_id": 4095, "physical_network": "physnet1"},
        {"network_type": "vlan", "segmentation_id": 5}, {"network_type": "vxlan", "segmentation_id": 2**24},
        {"network_type": "vxlan", "segmentation_id": 2**63}, {"network_type": "vxlan", "segmentation_id": "x"},
        {"network_type": "vxlan", "segmentation_id": 0}, {"segmentation_id": 5},
        {"network_type": "vlan", "segmentation_id": 5, "physical_network": "no-such-physnet"},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_segment_is_refused(client: Talk, segment: Object) -> None:
    body = {"network": {f"provider:{name}": value for name, value in segment.items()}}
    assert client.refused("POST", NETWORKS, body)[0] == 400


def _provided(kind: str, physical: str | None = None, number: int | None = None) -> Object:
    values = dict(zip(SEGMENT, (kind, physical, number), strict=True))
    return {"network": {name: value for name, value in values.items() if value is not None}}


def test_a_flat_network_is_the_only_one_of_its_physical_network(clean: Talk) -> None:
    flat = _network(clean, **{"provider:network_type": "flat", "provider:physical_network": "physnet1"})
    assert [flat[name] for name in SEGMENT] == ["flat", "physnet1", None]
    assert (flat["mtu"], clean.get(f"{NETWORKS}/{flat['id']}").object("network")) == (1500, flat)
    assert [each["id"] for each in _list_networks(clean, "provider:network_type=flat")] == [flat["id"]]
    message = "Unable to create the flat network. Physical network physnet1 is in use."
    assert clean.refused("POST", NETWORKS, _provided("flat", "physnet1")) == (409, "FlatNetworkInUse", message)
    assert _network(clean)["provider:physical_network"] == "physnet1"
    clean.say("DELETE", f"{NETWORKS}/{flat['id']}")
    assert clean.say("POST", NETWORKS, _provided("flat", "physnet1", 0)).status == 201


def _with_port(lab: cluster.SimulatedCluster, port: Object) -> str:
    """Create an instance with a port, and return its UUID."""
    nics = [{"port": port["id"]}]
    plain = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False}
    lab.run(lab.done({**plain, "pnode": "node1", "nics": nics}))
    answer = lab.run(lab.luxi("Query", "instance", ["uuid"], ["=", "name", "vm1"]))
    assert isinstance(answer, dict)
    return str(answer["data"][0][0][1])


def test_a_port_has_the_device_while_an_instance_uses_it(clean: Talk, lab: cluster.SimulatedCluster) -> None:
    network = _network(clean, project_id="green", **{"provider:network_type": "local"})
    plug = {"group_name": "default", "network_mode": "routed", "network_link": "main"}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_CONNECT", "network_name": network["id"], **plug}))
    _subnet(clean, network)
    port = _port(clean, network, who=MEMBER, name="p1", description="d")
    path = f"{PORTS}/{port['id']}"
    device = _with_port(lab, port)
    try:
        used = clean.get(path, who=MEMBER).object("port")
        changed = {"device_id": device, "device_owner": "compute:gantry", "status": "ACTIVE"}
        assert used == {**port, **changed, "updated_at": used["updated_at"]}
        assert [each["id"] for each in clean.get(f"{PORTS}?device_id={device}").all("ports")] == [port["id"]]
        assert clean.get(path, who=OTHER).status == 404
        for method, body in (("DELETE", None), ("PUT", {"port": {"name": "x"}})):
            status, kind, message = clean.refused(method, path, body, who=MEMBER)
            assert (status, kind) == (409, "PortInUse")
            assert f"port {port['id']} is a NIC of instance vm1" in message
    finally:
        lab.run(lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1"}))
        lab.run(lab.done({"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": network["id"], "group_name": "default"}))
    free = clean.get(path, who=MEMBER).object("port")
    assert free == {**port, "revision_number": 1, "updated_at": free["updated_at"]}
    assert clean.say("DELETE", path, who=MEMBER).status == 204


def test_local_networks_have_no_wire(clean: Talk) -> None:
    for _ in range(2):
        local = _network(clean, **{"provider:network_type": "local"})
        assert [local[name] for name in SEGMENT] == ["local", None, None]


def test_a_new_network_is_connected_by_the_link_of_its_physical_network_and_removed_with_it(
    clean: Talk, lab: cluster.SimulatedCluster
) -> None:
    def mapped(*mappings: str) -> None:
        settings = {"bridge_mappings": [*mappings], "force": True}
        lab.run(lab.done({"OP_ID": "OP_SEGMENT_DEFAULTS_SET", **settings}))

    def groups(network: Object) -> object:
        answer = lab.run(lab.luxi("Query", "network", ["group_list"], ["=", "uuid", network["id"]]))
        assert isinstance(answer, dict)
        return answer["data"][0][0][1]

    mapped("physnet1:br0")
    try:
        vlan, tunnel = _network(clean), _network(clean, **{"provider:network_type": "vxlan"})
        assert [group[:3] for group in groups(vlan)] == [["default", "bridged", "br0"]]  # type: ignore[attr-defined]
        assert groups(tunnel) == []
        assert clean.say("DELETE", f"{NETWORKS}/{vlan['id']}").status == 204
    finally:
        mapped()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_provided("flat"), "physical_network required for flat provider network."),
        (_provided("flat", "physnet1", 5), "segmentation_id prohibited for flat provider network."),
        (_provided("local", None, 5), "segmentation_id prohibited for local provider network."),
        (_provided("local", "physnet1"), "physical_network prohibited for local provider network."),
        (_provided("flat", "nowhere"), "physical network nowhere is not known"),
        (_provided("mesh"), "network_type value 'mesh' not supported"),
    ],
    ids=str,
)
def test_networks_without_a_segment_are_checked_by_neutrons_rules(clean: Talk, body: Object, reason: str) -> None:
    status, kind, message = clean.refused("POST", NETWORKS, body)
    assert (status, kind) == (400, "InvalidInput")
    assert message.startswith(f"Invalid input for operation: {reason}")
    assert clean.get(NETWORKS).all("networks") == []


def test_only_administrators_choose_the_type_of_a_network(client: Talk) -> None:
    assert client.refused("POST", NETWORKS, _provided("local"), who=MEMBER)[:2] == (403, "PolicyNotAuthorized")


def test_names_of_networks_need_not_be_unique_or_words(clean: Talk) -> None:
    created = [_network(clean, name) for name in ("n", "n", "", "a b/c", "n")]
    assert [each["name"] for each in created] == ["n", "n", "", "a b/c", "n"]
    matching = clean.get(f"{NETWORKS}?name=n").all("networks")
    assert {each["id"] for each in matching} == {created[index]["id"] for index in (0, 1, 4)}
    assert clean.refused("GET", f"{NETWORKS}/n") == (404, "NetworkNotFound", "Network n could not be found.")
    assert _changed(clean, NETWORKS, created[0], name="other")["name"] == "other"


def test_the_id_of_a_segment_is_at_least_0_and_0_is_refused_by_the_master(client: Talk) -> None:
    def refused(number: int) -> tuple[int, str, str]:
        segment = {"provider:network_type": "vxlan", "provider:segmentation_id": number}
        return client.refused("POST", NETWORKS, {"network": segment})

    reason = "'-1' is too small - must be at least '0'."
    assert refused(-1) == (400, "HTTPBadRequest", f"Invalid input for provider:segmentation_id. Reason: {reason}")
    limit = "Invalid input for operation: segmentation_id out of range (1 through 16777215)."
    assert refused(0) == (400, "InvalidInput", limit)


def test_an_object_is_changed_and_removed_by_its_uuid_only(clean: Talk) -> None:
    clean.lab.run(clean.lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"}))
    missing = (404, "NetworkNotFound", "Network net1 could not be found.")
    assert clean.refused("PUT", f"{NETWORKS}/net1", {"network": {"description": "d"}}) == missing
    assert clean.refused("DELETE", f"{NETWORKS}/net1") == missing
    assert [each["description"] for each in clean.get(NETWORKS).all("networks")] == [""]


def test_a_network_is_the_one_that_gnt_network_shows(clean: Talk) -> None:
    network = _network(clean, "shown")
    _subnet(clean, network, name="s", allocation_pools=[{"start": "10.0.0.4", "end": "10.0.0.6"}])
    question = ("network", ["name", "project", "network_type", "segment", "subnets"], ["=", "name", "shown"])
    rows = clean.lab.run(clean.lab.luxi("Query", *question))
    assert isinstance(rows, dict)
    (((_, name), (_, project), (_, kind), (_, segment), (_, subnets)),) = rows["data"]
    assert (name, project, kind, segment) == ("shown", "default", "vlan", 100)
    assert [(pool["start"], pool["end"]) for pool in subnets[0]["pools"]] == [("10.0.0.4", "10.0.0.6")]


def test_a_subnet_has_the_defaults_of_neutron(clean: Talk) -> None:
    network = _network(clean)
    first = _subnet(clean, network, "10.5.0.7/24")
    assert (first["cidr"], first["gateway_ip"], first["enable_dhcp"]) == ("10.5.0.0/24", "10.5.0.1", True)
    assert first["allocation_pools"] == [{"start": "10.5.0.2", "end": "10.5.0.254"}]
    assert (first["network_id"], first["revision_number"], first["host_routes"]) == (network["id"], 0, [])
    constants = {"router:external": False, "service_types": []}
    assert {name: first[name] for name in constants} == constants
    second = _subnet(clean, network, "10.6.0.0/24", gateway_ip=None)
    assert (second["gateway_ip"], second["enable_dhcp"]) == (None, False)
    assert second["allocation_pools"] == [{"start": "10.6.0.1", "end": "10.6.0.254"}]
    sixth = _subnet(clean, network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    assert (sixth["gateway_ip"], sixth["ipv6_ra_mode"]) == ("2001:db8::", "slaac")
    assert sixth["allocation_pools"] == [{"start": "2001:db8::1", "end": "2001:db8::ffff:ffff:ffff:ffff"}]
    assert set(clean.get(f"{NETWORKS}/{network['id']}").object("network")["subnets"]) == {  # type: ignore[call-overload]
        first["id"], second["id"], sixth["id"],
    }  # fmt: skip


def test_a_subnet_is_changed_and_removed(clean: Talk) -> None:
    network = _network(clean)
    subnet = _subnet(clean, network, name="s")
    changed = _changed(
        clean, SUBNETS, subnet, name="t", dns_nameservers=["192.0.2.53"], description="d", gateway_ip="10.0.0.14",
        enable_dhcp=False, allocation_pools=[{"start": "10.0.0.2", "end": "10.0.0.5"}],
        host_routes=[{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}],
    )  # fmt: skip
    assert (changed["name"], changed["gateway_ip"], changed["revision_number"]) == ("t", "10.0.0.14", 1)
    assert changed["host_routes"] == [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    assert (subnet["enable_dhcp"], changed["enable_dhcp"]) == (True, False)
    assert clean.get(f"{SUBNETS}/{subnet['id']}").object("subnet") == changed
    assert clean.refused("PUT", f"{SUBNETS}/{subnet['id']}", {"subnet": {"cidr": "10.9.0.0/24"}})[0] == 400
    _port(clean, network)
    message = "One or more ports have an IP allocation from this subnet."
    assert clean.refused("DELETE", f"{SUBNETS}/{subnet['id']}") == (
        409, "SubnetInUse", f"Unable to complete operation on subnet {subnet['id']}: {message}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"cidr": "10.0.0.0/24"}, 400, "InvalidInput"),  # It overlaps.
        ({"cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.0"}, 400, "InvalidInput"),
        ({"cidr": "10.1.0.0/24", "gateway_ip": "2001:db8::1"}, 400, "InvalidInput"),
        ({"cidr": "0.0.0.0/0"}, 400, "InvalidInput"),
        ({"cidr": "0.0.0.0/8"}, 400, "InvalidInput"),
        ({"cidr": "10.3.0.0/31"}, 400, "InvalidInput"),
        ({"cidr": "10.4.0.1/32"}, 400, "InvalidInput"),
        ({"cidr": "2001:db8::/64"}, 400, "InvalidInput"),
        ({}, 400, "BadRequest"),
        ({"cidr": "x"}, 400, "HTTPBadRequest"),
        ({"cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.5",
          "allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.9"}]}, 409, "GatewayConflictWithAllocationPools"),
        ({"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.1.0.1", "end": "10.1.0.9"}]},
         409, "GatewayConflictWithAllocationPools"),
        ({"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.2.0.2", "end": "10.2.0.9"}]},
         400, "OutOfBoundsAllocationPool"),
        ({"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.255"}]},
         400, "OutOfBoundsAllocationPool"),
        ({"cidr": "10.1.0.0/24", "prefixlen": 26}, 400, "BadRequest"),
        ({"use_default_subnetpool": True}, 400, "BadRequest"),
        ({"use_default_subnetpool": True, "subnetpool_id": NOWHERE}, 400, "BadRequest"),
        ({"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.9"},
                                                      {"start": "10.1.0.9", "end": "10.1.0.12"}]},
         409, "OverlappingAllocationPools"),
        ({"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.1.0.2"}]}, 400, "HTTPBadRequest"),
        ({"cidr": "10.1.0.0/24", "ipv6_ra_mode": "slaac"}, 400, "InvalidInput"),
        ({"cidr": "10.1.0.0/24", "dns_nameservers": ["x"]}, 400, "HTTPBadRequest"),
        ({"cidr": "10.1.0.0/24", "service_types": ["compute:x"]}, 400, "HTTPBadRequest"),
        ({"cidr": "10.1.0.0/24", "ip_version": 5}, 400, "HTTPBadRequest"),
        ({"cidr": "10.1.0.0/24", "network_id": NOWHERE}, 404, "NetworkNotFound"),
        ({"cidr": "10.1.0.0/24", "subnetpool_id": NOWHERE}, 404, "SubnetPoolNotFound"),
    ],
)  # fmt: skip
def test_a_subnet_that_is_not_valid_is_refused(clean: Talk, body: Object, status: int, kind: str) -> None:
    network = _network(clean)
    _subnet(clean, network)
    request = {"network_id": network["id"], "ip_version": 4, **body}
    assert clean.refused("POST", SUBNETS, {"subnet": request})[:2] == (status, kind)
    assert len(clean.get(SUBNETS).all("subnets")) == 1


@pytest.mark.parametrize("gateway", [None, "10.0.0.2"])
def test_a_gateway_that_a_router_has_cannot_be_changed(clean: Talk, gateway: str | None) -> None:
    network = _network(clean)
    subnet = _subnet(clean, network, allocation_pools=[{"start": "10.0.0.4", "end": "10.0.0.5"}])
    at = [{"subnet_id": subnet["id"], "ip_address": "10.0.0.1"}]
    port = _port(clean, network, device_owner="network:router_interface", fixed_ips=at)
    message = f"Current gateway ip 10.0.0.1 already in use by port {port['id']}. Unable to update."
    body = {"subnet": {"gateway_ip": gateway}}
    assert clean.refused("PUT", f"{SUBNETS}/{subnet['id']}", body) == (409, "GatewayIpInUse", message)
    assert _changed(clean, SUBNETS, subnet, gateway_ip="10.0.0.1")["gateway_ip"] == "10.0.0.1"
    assert clean.say("DELETE", f"{PORTS}/{port['id']}").status == 204
    assert _changed(clean, SUBNETS, subnet, gateway_ip=gateway)["gateway_ip"] == gateway


def test_a_subnet_whose_guests_configure_themselves_takes_their_addresses_with_it(clean: Talk) -> None:
    network = _network(clean)
    _subnet(clean, network)
    automatic = _subnet(clean, network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    port = _port(clean, network, mac_address="fa:16:3e:aa:bb:cc")
    router_at = [{"subnet_id": automatic["id"], "ip_address": "2001:db8::1"}]
    router = _port(clean, network, device_owner="network:router_interface", fixed_ips=router_at)
    path = f"{SUBNETS}/{automatic['id']}"
    assert clean.refused("DELETE", path)[:2] == (409, "SubnetInUse")
    assert len(_addresses(clean.get(f"{PORTS}/{port['id']}").object("port"))) == 2
    assert clean.say("DELETE", f"{PORTS}/{router['id']}").status == 204
    assert clean.say("DELETE", path).status == 204
    assert _addresses(clean.get(f"{PORTS}/{port['id']}").object("port")) == ["10.0.0.2"]
    again = _subnet(clean, network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    assert _addresses(_port(clean, network, mac_address="fa:16:3e:aa:bb:cd"))[1:] == ["2001:db8::f816:3eff:feaa:bbcd"]
    assert again["id"] != automatic["id"]


def test_cidrs_of_subnets_are_allocated_from_a_pool(clean: Talk) -> None:
    pool = clean.add(POOLS, {"name": "sp", "prefixes": ["10.10.0.0/24"], "default_prefixlen": 26, "min_prefixlen": 25})
    assert (pool["default_prefixlen"], pool["max_prefixlen"], pool["ip_version"]) == ("26", "32", 4)
    network = _network(clean)
    common = {"network_id": network["id"], "ip_version": 4, "subnetpool_id": pool["id"]}
    subnets = [clean.add(SUBNETS, common) for _ in range(4)]
    assert [each["cidr"] for each in subnets] == [f"10.10.0.{first}/26" for first in (0, 64, 128, 192)]
    assert subnets[1]["gateway_ip"] == "10.10.0.65"
    assert subnets[1]["allocation_pools"] == [{"start": "10.10.0.66", "end": "10.10.0.126"}]
    message = "Failed to allocate subnet: Insufficient prefix space to allocate subnet size /26."
    assert clean.refused("POST", SUBNETS, {"subnet": common}) == (409, "SubnetAllocationError", message)
    for more in ({"cidr": "10.10.0.0/26"}, {"cidr": "10.11.0.0/26"}, {"prefixlen": 24}):
        assert clean.refused("POST", SUBNETS, {"subnet": {**common, **more}})[0] == 400
    message = "Unable to delete subnet pool: Subnet pool has existing allocations."
    assert clean.refused("DELETE", f"{POOLS}/{pool['id']}") == (400, "SubnetPoolDeleteError", message)
    assert _changed(clean, POOLS, pool, name="other", default_prefixlen=27)["default_prefixlen"] == "27"


def test_pools_that_a_subnet_is_changed_to_have_no_gateway_and_no_end(clean: Talk) -> None:
    network = _network(clean)
    routed, bare = _subnet(clean, network), _subnet(clean, network, "10.1.0.0/28", gateway_ip=None)
    for subnet, pool, kind in (
        (routed, ("10.0.0.1", "10.0.0.4"), (409, "GatewayConflictWithAllocationPools")),
        (routed, ("10.0.0.9", "10.0.0.15"), (400, "OutOfBoundsAllocationPool")),
        (bare, ("10.1.0.0", "10.1.0.4"), (400, "OutOfBoundsAllocationPool")),
    ):
        body = {"subnet": {"allocation_pools": [dict(zip(("start", "end"), pool, strict=True))]}}
        assert clean.refused("PUT", f"{SUBNETS}/{subnet['id']}", body)[:2] == kind
    message = "Gateway ip 10.0.0.9 conflicts with allocation pool 10.0.0.2-10.0.0.14."
    refused = clean.refused("PUT", f"{SUBNETS}/{routed['id']}", {"subnet": {"gateway_ip": "10.0.0.9"}})
    assert refused == (409, "GatewayConflictWithAllocationPools", message)
    assert _changed(clean, SUBNETS, bare, allocation_pools=[{"start": "10.1.0.1", "end": "10.1.0.4"}])


def test_the_default_pool_depends_on_the_ip_version(clean: Talk) -> None:
    clean.add(POOLS, {"prefixes": ["2001:db8::/48"], "is_default": True, "shared": True})
    network = _network(clean, who=MEMBER)
    request = {"network_id": network["id"], "ip_version": 4, "use_default_subnetpool": True}
    message = "Bad subnets request: No default subnetpool found for IPv4."
    assert clean.refused("POST", SUBNETS, {"subnet": request}, who=MEMBER) == (400, "BadRequest", message)
    pool = clean.add(POOLS, {"prefixes": ["10.0.0.0/16"], "default_prefixlen": 24, "is_default": True})
    assert clean.refused("POST", SUBNETS, {"subnet": request}, who=MEMBER)[2] == message
    subnet = clean.add(SUBNETS, request)
    assert (subnet["cidr"], subnet["subnetpool_id"]) == ("10.0.0.0/24", pool["id"])
    assert clean.add(SUBNETS, {**request, "ip_version": 6}, who=MEMBER)["cidr"] == "2001:db8::/64"


def test_a_port_with_the_owner_of_a_nic_is_not_a_nic(clean: Talk, lab: cluster.SimulatedCluster) -> None:
    vm = {"instance_name": "vm2", "disk_template": "diskless", "start": False}
    lab.run(lab.done({"OP_ID": "OP_INSTANCE_CREATE", **vm}))
    rows = lab.run(lab.luxi("Query", "instance", ["uuid"], ["=", "name", "vm2"]))
    assert isinstance(rows, dict)
    try:
        named = {"device_owner": "compute:gantry", "device_id": rows["data"][0][0][1]}
        assert _port(clean, _network(clean, who=MEMBER), who=MEMBER, **named)["status"] == "DOWN"
    finally:
        for port in clean.get(PORTS).all("ports"):
            clean.say("DELETE", f"{PORTS}/{port['id']}")
        lab.run(lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm2"}))


def test_ports_get_addresses_and_release_them(clean: Talk) -> None:
    network = _network(clean)
    subnet = _subnet(clean, network, allocation_pools=[{"start": "10.0.0.4", "end": "10.0.0.6"}])
    first = _port(clean, network, name="p")
    assert first["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "10.0.0.4"}]
    assert (first["status"], first["binding:vif_type"], first["security_groups"]) == ("DOWN", "unbound", [])
    assert clean.get(f"{PORTS}/{first['id']}").object("port") == first
    specific = _port(clean, network, fixed_ips=[{"ip_address": "10.0.0.12"}])
    assert _addresses(specific) == ["10.0.0.12"]
    assert _addresses(_port(clean, network, fixed_ips=[])) == []
    with_two = _port(clean, network, fixed_ips=[{"subnet_id": subnet["id"]}] * 2)
    assert _addresses(with_two) == ["10.0.0.5", "10.0.0.6"]
    message = f"No more IP addresses available on network {network['id']}."
    for more in ({}, {"fixed_ips": [{"subnet_id": subnet["id"]}]}):
        refused = clean.refused("POST", PORTS, {"port": {"network_id": network["id"], **more}})
        assert refused == (409, "IpAddressGenerationFailure", message)
    changed = _changed(clean, PORTS, first, fixed_ips=[{"ip_address": "10.0.0.9"}], device_id="d", name="q")
    assert (_addresses(changed), changed["device_id"], changed["revision_number"]) == (["10.0.0.9"], "d", 1)
    assert _addresses(_port(clean, network)) == ["10.0.0.4"]
    assert clean.say("DELETE", f"{PORTS}/{with_two['id']}").status == 204
    bulk = clean.say("POST", PORTS, {"ports": [{"network_id": network["id"]}] * 2})
    assert [_addresses(port) for port in bulk.all("ports")] == [["10.0.0.5"], ["10.0.0.6"]]
    many = clean.say("POST", PORTS, {"ports": [{"network_id": network["id"]}] * 2})
    assert many.fault[:2] == (409, "IpAddressGenerationFailure")
    used = clean.refused("DELETE", f"{NETWORKS}/{network['id']}")
    assert used[:2] == (409, "NetworkInUse")
    assert "There are one or more ports still in use on the network, id for these ports is: " in used[2]


@pytest.mark.parametrize(
    ("body", "status", "kind", "message"),
    [
        ({"fixed_ips": [{"ip_address": "10.9.0.1"}]}, 400, "InvalidIpForNetwork",
         "IP address 10.9.0.1 is not a valid IP for any of the subnets on the specified network."),
        ({"fixed_ips": [{"ip_address": "10.0.0.0"}]}, 400, "InvalidIpForSubnet",
         "IP address 10.0.0.0 is not a valid IP for the specified subnet."),
        ({"fixed_ips": [{"ip_address": "10.0.0.15"}]}, 400, "InvalidIpForSubnet",
         "IP address 10.0.0.15 is not a valid IP for the specified subnet."),
        ({"fixed_ips": [{"ip_address": "x"}]}, 400, "HTTPBadRequest",
         "Invalid input for fixed_ips. Reason: 'x' is not a valid IP address."),
        ({"fixed_ips": [{"subnet_id": NOWHERE}]}, 404, "SubnetNotFound", f"Subnet {NOWHERE} could not be found."),
        ({"fixed_ips": [{"ip_address": "2001:db8::5"}]}, 400, "AllocationOnAutoAddressSubnet", ""),
        ({"network_id": NOWHERE}, 404, "NetworkNotFound", f"Network {NOWHERE} could not be found."),
        ({"mac_address": "x"}, 400, "HTTPBadRequest", ""),
        ({"mac_address": "00:00:00:00:00:00"}, 400, "HTTPBadRequest", ""),
        ({"mac_address": "ff:ff:ff:ff:ff:ff"}, 400, "HTTPBadRequest", ""),
        ({"fixed_ips": [{"ip_address": "10.0.0.5"}]}, 409, "IpAddressAlreadyAllocated", ""),
        ({"security_groups": [NOWHERE]}, 400, "HTTPBadRequest", ""),
        ({"fixed_ips": 5}, 400, "HTTPBadRequest", ""),
        ({"fixed_ips": [{"nope": 1}]}, 400, "HTTPBadRequest", ""),
        ({"fixed_ips": [{}] * 65}, 400, "HTTPBadRequest", ""),
    ],
)  # fmt: skip
def test_an_invalid_port_is_refused_and_leaves_no_address(
    clean: Talk, body: Object, status: int, kind: str, message: str
) -> None:
    network = _network(clean)
    _subnet(clean, network, allocation_pools=[{"start": "10.0.0.4", "end": "10.0.0.5"}])
    _subnet(clean, network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    _port(clean, network, mac_address="FA:16:3E:AA:BB:CC", fixed_ips=[{"ip_address": "10.0.0.5"}])
    for _ in range(3):
        fault = clean.refused("POST", PORTS, {"port": {"network_id": network["id"], **body}})
        assert fault[:2] == (status, kind)
        assert message in fault[2]
    assert _addresses(_port(clean, network))[0] == "10.0.0.4"


@pytest.mark.parametrize(
    ("served", "message", "expected"),
    [
        (ports.RESOURCE, "address 10.0.0.5 of network n is held by job 7, which is still running",
         (409, "IpAddressAlreadyAllocated")),
        (ports.RESOURCE, "MAC address fa:16:3e:aa:bb:cc is held by job 7, which is still running",
         (409, "MacAddressInUse")),
        (ports.RESOURCE, "job 7 has not ended yet", (503, "HTTPServiceUnavailable")),
        (networks.RESOURCE, "vlan segment 5 is held by job 7, which is still running", (409, "VlanIdInUse")),
        (networks.RESOURCE, "gre segment 5 is held by job 7, which is still running", (409, "TunnelIdInUse")),
        (networks.RESOURCE, "job 7 has not ended yet", (503, "HTTPServiceUnavailable")),
    ],
)  # fmt: skip
def test_the_fault_for_a_held_address_differs_from_that_for_a_slow_job(
    served: resource.Resource, message: str, expected: tuple[int, str]
) -> None:
    fault = served.fault(errors.BusyError(message), {"id": NOWHERE})
    assert (fault.status, fault.kind) == expected


def test_the_fault_of_a_request_for_several_objects_has_the_values_of_the_one_that_the_master_names() -> None:
    used: attributes.Values = {"network_id": "second", "mac_address": "fa:16:3e:aa:bb:cc"}
    fault = ports.RESOURCE.fault(
        errors.NotUniqueError("MAC address fa:16:3e:aa:bb:cc is in use"), {"network_id": "first"}, used
    )
    assert str(fault).startswith("Unable to complete operation for network second. The mac address fa:16:3e:aa:bb:cc ")
    with_pool: attributes.Values = {"cidr": "10.0.0.0/24", "allocation_pools": ["10.0.0.5-10.0.0.6"]}
    overlap = errors.InvalidError("pool 10.0.0.1-10.0.0.9 overlaps pool 10.0.0.5-10.0.0.6")
    assert str(subnets.RESOURCE.fault(overlap, {"cidr": "10.1.0.0/24"}, with_pool)).endswith("subnet 10.0.0.0/24.")
    # The place of an unknown attribute stays empty.
    full = errors.NoRoomError("network has no free address")
    assert str(ports.RESOURCE.fault(full, {})) == "No more IP addresses available on network ."


@pytest.mark.parametrize(
    ("text", "more"),
    [("there is no free segment in the ranges that the network may use", ""), (NO_RANGES, NO_RANGES)],
)
def test_the_fault_of_a_network_without_a_segment_says_if_no_ranges_are_set(text: str, more: str) -> None:
    fault = networks.RESOURCE.fault(errors.NoRoomError(text), {"id": NOWHERE})
    neutron = "Unable to create the network. No tenant network is available for allocation."
    assert (fault.status, fault.kind, str(fault)) == (503, "NoNetworkAvailable", f"{neutron} {more}".rstrip())


def test_a_value_that_the_master_refuses_is_named_by_its_attribute(clean: Talk) -> None:
    network = _network(clean)
    many: list[object] = [f"10.1.0.{number}" for number in range(65)]
    request = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/28", "dns_nameservers": many}
    message = "Invalid input for dns_nameservers. Reason: takes at most 64 values"
    assert clean.refused("POST", SUBNETS, {"subnet": request}) == (400, "HTTPBadRequest", message)


def test_a_mac_address_belongs_to_one_port(clean: Talk) -> None:
    network = _network(clean)
    request = {"network_id": network["id"], "mac_address": "fa:16:3e:aa:bb:cc"}
    assert clean.add(PORTS, request)["mac_address"] == "fa:16:3e:aa:bb:cc"
    message = f"Unable to complete operation for network {network['id']}. The mac address fa:16:3e:aa:bb:cc is in use."
    assert clean.refused("POST", PORTS, {"port": request}) == (409, "MacAddressInUse", message)


def test_a_mac_address_in_use_is_named_with_its_network_whatever_requests_it(clean: Talk) -> None:
    first, second = _network(clean, "first", shared=True), _network(clean, "second", shared=True)
    _port(clean, first, mac_address="fa:16:3e:00:00:01")
    own = _port(clean, second, who=MEMBER)

    def fault(network: Object, mac: str) -> tuple[int, str, str]:
        text = f"Unable to complete operation for network {network['id']}. The mac address {mac} is in use."
        return 409, "MacAddressInUse", text

    taken = {"mac_address": "FA-16-3E-00-00-01"}
    expected = fault(second, "fa:16:3e:00:00:01")
    assert clean.refused("POST", PORTS, {"port": {"network_id": second["id"], **taken}}) == expected
    assert clean.refused("PUT", f"{PORTS}/{own['id']}", {"port": taken}) == expected
    several: list[Object] = [{"network_id": first["id"]}, {"network_id": second["id"], **taken}]
    assert clean.refused("POST", PORTS, {"ports": several}) == expected
    new = {"mac_address": "fa:16:3e:00:00:02"}
    twice: list[Object] = [
        {"network_id": first["id"]},
        {"network_id": second["id"], **new},
        {"network_id": second["id"], **new},
    ]
    assert clean.refused("POST", PORTS, {"ports": twice}) == fault(second, "fa:16:3e:00:00:02")


def test_a_port_includes_the_address_that_its_guest_configures_automatically(clean: Talk) -> None:
    network = _network(clean)
    _subnet(clean, network)
    _subnet(clean, network, "2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    port = _port(clean, network, mac_address="fa:16:3e:aa:bb:cc")
    assert _addresses(port) == ["10.0.0.2", "2001:db8::f816:3eff:feaa:bbcc"]


def test_projects_see_their_own_and_what_is_shared(clean: Talk) -> None:
    own, shared = _network(clean, "own", who=MEMBER), _network(clean, "for-all", shared=True)
    hidden = _network(clean, "hidden", who=OTHER)
    assert {each["name"] for each in clean.get(NETWORKS, who=MEMBER).all("networks")} == {"own", "for-all"}
    assert not set(SEGMENT) & own.keys()
    assert not set(SEGMENT) & clean.get(f"{NETWORKS}/{shared['id']}", who=MEMBER).object("network").keys()
    for method, path in (("GET", NETWORKS), ("PUT", NETWORKS), ("DELETE", NETWORKS)):
        body = {"network": {"name": "x"}}
        assert clean.refused(method, f"{path}/{hidden['id']}", body, who=MEMBER)[:2] == (404, "NetworkNotFound")
    for method in ("PUT", "DELETE"):
        fault = clean.refused(method, f"{NETWORKS}/{shared['id']}", {"network": {"name": "x"}}, who=MEMBER)
        assert fault[:2] == (403, "PolicyNotAuthorized")
    assert clean.refused("POST", NETWORKS, {"network": {"shared": True}}, who=MEMBER)[0] == 403
    assert clean.refused("POST", NETWORKS, {"network": {"project_id": "blue"}}, who=MEMBER)[:2] == (
        400,
        "HTTPBadRequest",
    )
    assert clean.refused("GET", f"{NETWORKS}?provider:network_type=vlan", who=MEMBER)[0] == 403
    for path in (NETWORKS, PORTS, SUBNETS, POOLS):
        name = path.rpartition("/")[2].removesuffix("s")
        valid: Object = {"network_id": own["id"], "ip_version": 4, "cidr": "10.0.0.0/28", "prefixes": ["10.0.0.0/8"]}
        known = {"network": (), "port": ("network_id",), "subnet": ("network_id", "ip_version", "cidr"),
                 "subnetpool": ("prefixes",)}[name]  # fmt: skip
        request = {name: {key: valid[key] for key in known}}
        rule = f"rule:create_{name} is disallowed by policy"
        assert clean.refused("POST", path, request, who=READER) == (403, "PolicyNotAuthorized", rule)


def test_subnets_of_a_shared_network_are_seen_and_not_changed(clean: Talk) -> None:
    shared, hidden = _network(clean, "for-all", shared=True), _network(clean, "hidden", who=OTHER)
    seen, _ = _subnet(clean, shared), _subnet(clean, hidden)
    assert clean.get(SUBNETS, who=MEMBER).all("subnets") == [seen]
    assert clean.get(f"{SUBNETS}/{seen['id']}", who=MEMBER).object("subnet") == seen
    for method in ("PUT", "DELETE"):
        refused = clean.refused(method, f"{SUBNETS}/{seen['id']}", {"subnet": {"name": "x"}}, who=MEMBER)
        assert refused[:2] == (403, "PolicyNotAuthorized")


def test_a_network_that_others_use_stays_shared(clean: Talk) -> None:
    shared = _network(clean, "for-all", shared=True)
    port = _port(clean, shared, who=MEMBER)
    message = f"Unable to reconfigure sharing settings for network {shared['id']}. Multiple tenants are using it."
    refused = clean.refused("PUT", f"{NETWORKS}/{shared['id']}", {"network": {"shared": False}})
    assert refused == (409, "InvalidSharedSetting", message)
    assert clean.say("DELETE", f"{PORTS}/{port['id']}").status == 204
    assert _changed(clean, NETWORKS, shared, shared=False)["shared"] is False


def test_a_user_cannot_allocate_from_a_pool_that_the_user_cannot_see(clean: Talk) -> None:
    pools = [
        clean.add(POOLS, {"prefixes": [cidr], "shared": cidr[1] == "1"}) for cidr in ("10.0.0.0/16", "11.0.0.0/16")
    ]
    network = _network(clean, who=MEMBER)
    requests = [
        {"network_id": network["id"], "ip_version": 4, "subnetpool_id": pool["id"], "prefixlen": 24} for pool in pools
    ]
    message = f"Subnet pool {pools[0]['id']} could not be found."
    assert clean.refused("POST", SUBNETS, {"subnet": requests[0]}, who=MEMBER) == (404, "SubnetPoolNotFound", message)
    assert clean.add(SUBNETS, requests[1], who=MEMBER)["cidr"] == "11.0.0.0/24"


def test_a_project_fills_networks_that_it_may_use(clean: Talk) -> None:
    own, shared = _network(clean, "own", who=MEMBER), _network(clean, "for-all", shared=True)
    hidden = _network(clean, "hidden", who=OTHER)
    subnet = {"ip_version": 4, "cidr": "10.0.0.0/28"}
    clean.add(SUBNETS, {"network_id": own["id"], **subnet}, who=MEMBER)
    clean.add(SUBNETS, {"network_id": shared["id"], **subnet})
    fault = clean.refused("POST", SUBNETS, {"subnet": {"network_id": shared["id"], **subnet}}, who=MEMBER)
    assert fault == (403, "PolicyNotAuthorized", "rule:create_subnet is disallowed by policy")
    fault = clean.refused("POST", PORTS, {"port": {"network_id": hidden["id"]}}, who=MEMBER)
    assert fault == (404, "NetworkNotFound", f"Network {hidden['id']} could not be found.")
    port = _port(clean, shared, who=MEMBER)
    assert port["project_id"] == "green"
    assert _changed(clean, PORTS, port, who=MEMBER, name="x")["name"] == "x"
    assert clean.refused("DELETE", f"{PORTS}/{port['id']}", who=READER)[0] == 403
    assert clean.refused("DELETE", f"{PORTS}/{port['id']}", who=OTHER)[0] == 404
    assert clean.say("DELETE", f"{PORTS}/{port['id']}", who=MEMBER).status == 204


def test_nics_of_instances_are_shown_as_ports(clean: Talk, lab: cluster.SimulatedCluster) -> None:
    subnet = {"cidr": "10.0.0.0/28", "gateway": "10.0.0.1", "pool": True}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "lan", "subnets": [subnet]}))
    (network,) = clean.get(f"{NETWORKS}?name=lan").all("networks")
    assert (network["project_id"], network["provider:network_type"]) == ("", None)
    connect = {"network_name": "lan", "group_name": "default", "network_mode": "routed", "network_link": "main"}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_CONNECT", **connect}))
    nic = {"network": "lan", "ip": "pool"}
    vm = {"instance_name": "vm1", "disk_template": "diskless", "start": False, "nics": [nic]}
    lab.run(lab.done({"OP_ID": "OP_INSTANCE_CREATE", **vm}))
    try:
        (port,) = clean.get(f"{PORTS}?network_id={network['id']}").all("ports")
        assert (port["device_owner"], port["status"], _addresses(port)) == ("compute:gantry", "ACTIVE", ["10.0.0.2"])
        assert clean.get(f"{PORTS}?device_id={port['device_id']}").all("ports") == [port]
        for method in ("PUT", "DELETE"):
            assert clean.refused(method, f"{PORTS}/{port['id']}", {"port": {"name": "x"}})[0] == 409
        assert _addresses(_port(clean, network)) == ["10.0.0.3"]
    finally:
        clean.clear_ports()
        lab.run(lab.done({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1"}))
        lab.run(lab.done({"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": "lan", "group_name": "default"}))


def test_availability_counts_addresses(clean: Talk) -> None:
    network = _network(clean)
    subnet = _subnet(clean, network)
    _port(clean, network)
    (availability,) = clean.get("/v2.0/network-ip-availabilities").all("network_ip_availabilities")
    assert (availability["network_id"], availability["used_ips"], availability["total_ips"]) == (network["id"], 1, 13)
    single = clean.get(f"/v2.0/network-ip-availabilities/{network['id']}").object("network_ip_availability")
    assert single["subnet_ip_availability"] == [
        {"subnet_id": subnet["id"], "subnet_name": "", "ip_version": 4, "cidr": "10.0.0.0/28", "used_ips": 1,
         "total_ips": 13},
    ]  # fmt: skip
    assert clean.get("/v2.0/network-ip-availabilities?ip_version=6").body == {"network_ip_availabilities": []}
    assert clean.get(f"/v2.0/network-ip-availabilities/{NOWHERE}").status == 404
    assert clean.get("/v2.0/network-ip-availabilities", who=MEMBER).body == {"network_ip_availabilities": []}


def test_availability_is_filtered_by_network_and_project(clean: Talk) -> None:
    first, second = _network(clean, "one"), _network(clean, "two", who=MEMBER)
    for network in (first, second):
        _subnet(clean, network)
    for query, expected in (
        (f"network_id={first['id']}", "one"), ("network_name=two", "two"), ("project_id=green", "two"),
        ("tenant_id=default", "one"), (f"network_id={first['id']}&project_id=green", ""),
    ):  # fmt: skip
        rows = clean.get(f"/v2.0/network-ip-availabilities?{query}").all("network_ip_availabilities")
        assert [row["network_name"] for row in rows] == [*filter(None, [expected])], query
        assert all(row["total_ips"] == 13 for row in rows)


def test_the_mtu_of_a_tunnel_is_smaller(clean: Talk) -> None:
    vlan, tunnel = _network(clean), _network(clean, **{"provider:network_type": "vxlan"})
    assert (vlan["mtu"], tunnel["mtu"]) == (1500, 1450)
    assert clean.get(f"{NETWORKS}/{tunnel['id']}").object("network")["mtu"] == 1450


def test_ports_are_found_by_a_device_that_they_do_not_have(clean: Talk) -> None:
    network = _network(clean)
    bare, _ = _port(clean, network), _port(clean, network, device_id="d")
    assert clean.get(f"{PORTS}?device_id=").all("ports") == [bare]


def test_when_a_network_of_several_cannot_be_created_the_others_are_removed_again(clean: Talk) -> None:
    def bulk(*ids: int) -> Object:
        segments = [dict(zip(SEGMENT, ("vlan", "physnet1", number), strict=True)) for number in ids]
        return {"networks": [{"name": f"n{index}", **segment} for index, segment in enumerate(segments)]}

    clean.say("POST", NETWORKS, bulk(110))
    kept = _list_networks(clean, "")
    status, kind, message = clean.refused("POST", NETWORKS, bulk(105, 106, 110))
    assert (status, kind) == (409, "VlanIdInUse")
    assert "110" in message
    assert _list_networks(clean, "") == kept
    assert len(clean.say("POST", NETWORKS, bulk(105, 106)).all("networks")) == 2


def test_when_a_subnet_of_several_cannot_be_created_the_others_are_removed_again(clean: Talk) -> None:
    network = _network(clean)
    common: Object = {"network_id": network["id"], "ip_version": 4}
    subnets = [{**common, "cidr": cidr} for cidr in ("10.0.0.0/24", "10.0.1.0/24", "10.0.0.128/25")]
    status, _, message = clean.refused("POST", SUBNETS, {"subnets": subnets})
    assert status == 400
    assert "10.0.0.128/25" in message
    assert clean.get(SUBNETS).all("subnets") == []


def test_an_empty_change_changes_nothing(clean: Talk) -> None:
    network = _network(clean)
    subnet, port = _subnet(clean, network), _port(clean, network)
    known = clean.get(f"{NETWORKS}/{network['id']}").object("network")
    assert _changed(clean, NETWORKS, network) == known
    assert _changed(clean, SUBNETS, subnet) == subnet
    assert _changed(clean, PORTS, port) == port
    for path, uuid in ((NETWORKS, NOWHERE), (SUBNETS, NOWHERE), (PORTS, NOWHERE), (POOLS, NOWHERE)):
        name = path.rpartition("/")[2].removesuffix("s")
        assert clean.refused("PUT", f"{path}/{uuid}", {name: {}})[0] == 404
        assert clean.refused("PUT", f"{path}/{uuid}", {name: {"name": "x"}})[0] == 404
        assert clean.refused("DELETE", f"{path}/{uuid}")[0] == 404


def test_tags_of_everything(clean: Talk) -> None:
    network = _network(clean)
    subnet, pool = _subnet(clean, network), clean.add(POOLS, {"prefixes": ["10.0.0.0/8"]})
    port = _port(clean, network)
    for path, target in ((NETWORKS, network), (SUBNETS, subnet), (PORTS, port), (POOLS, pool)):
        assert clean.say("PUT", f"{path}/{target['id']}/tags", {"tags": ["b", "a"]}).status == 200
        current = clean.get(f"{path}/{target['id']}").object(path.rpartition("/")[2].removesuffix("s"))
        assert current["tags"] == ["a", "b"]
        assert len(clean.get(f"{path}?tags-any=a,z").all(path.rpartition("/")[2])) == 1


def test_tags_that_are_added_at_the_same_time_are_all_kept(clean: Talk) -> None:
    path = f"{NETWORKS}/{_network(clean)['id']}/tags"
    names = [f"t{number}" for number in range(8)]
    assert {answer.status for answer in clean.at_once("PUT", [f"{path}/{name}" for name in names])} == {201}
    assert clean.get(path).body == {"tags": names}
    assert {answer.status for answer in clean.at_once("DELETE", [f"{path}/{name}" for name in names[1:]])} == {204}
    assert clean.get(path).body == {"tags": names[:1]}


def test_a_tag_that_is_too_long_or_there_twice_is_refused(clean: Talk) -> None:
    path = f"{NETWORKS}/{_network(clean)['id']}/tags"
    refused = clean.refused("PUT", f"{path}/{'x' * 256}")
    assert refused[:2] == (400, "InvalidInput")
    assert "exceeds maximum length" in refused[2]
    assert clean.refused("PUT", path, {"tags": ["a", "a"]})[0] == 400
    assert clean.say("PUT", f"{path}/{'x' * 255}").status == 201


def test_a_gateway_outside_of_its_subnet_is_accepted(clean: Talk) -> None:
    network = _network(clean)
    assert _subnet(clean, network, "10.1.0.0/24", gateway_ip="10.2.0.1")["gateway_ip"] == "10.2.0.1"
    assert _subnet(clean, network, "2001:db8::/64", ip_version=6, gateway_ip="fe80::1")["gateway_ip"] == "fe80::1"


def test_a_subnet_from_a_pool_has_the_ip_version_and_the_gateway_of_its_request(clean: Talk) -> None:
    network = _network(clean)
    pool = clean.add(POOLS, {"name": "p", "prefixes": ["10.0.0.0/16"]})
    common = {"network_id": network["id"], "subnetpool_id": pool["id"], "prefixlen": 24}
    refused = clean.refused("POST", SUBNETS, {"subnet": {**common, "ip_version": 6}})
    assert refused[:2] == (400, "SubnetAllocationError")
    body = {**common, "ip_version": 4, "gateway_ip": "10.0.7.9"}
    subnet = clean.add(SUBNETS, body)
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("10.0.7.0/24", "10.0.7.9")
    assert clean.refused("POST", SUBNETS, {"subnet": body})[:2] == (409, "SubnetAllocationError")


def test_a_mac_address_is_stored_in_the_usual_form(clean: Talk) -> None:
    network = _network(clean)
    _subnet(clean, network)
    port = _port(clean, network, mac_address="AA-00-00-12-34-56")
    assert port["mac_address"] == "aa:00:00:12:34:56"
