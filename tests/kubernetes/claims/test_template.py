"""A template, in both API versions, and its rendered data."""

import copy

import pytest
import yaml
from tests.kubernetes.claims import server

from gantry import errors
from gantry.kubernetes.api import capi, data, definitions, ipam, meta, schema
from gantry.kubernetes.claims import template

GIFTS = {
    "front": template.PoolValues("192.0.2.10", 26, "192.0.2.1", ("192.0.2.2", "192.0.2.3")),
    "front6": template.PoolValues("2001:db8:7::10", 64, "2001:db8:7::1"),
    "alone": template.PoolValues("198.51.100.7", 32),
    "long": template.PoolValues("198.51.100.8", 64),
}

SPEC: schema.Json = {
    "clusterName": "edge",
    "metaData": {
        "strings": [{"key": "site", "value": "north"}],
        "objectNames": [{"key": "name", "object": "machine"}, {"key": "host", "object": "baremetalhost"}],
        "indexes": [{"key": "rank", "offset": 3, "step": 4, "prefix": "r", "suffix": "x"}],
        "namespaces": [{"key": "space"}],
        "ipAddressesFromIPPool": [{"key": "ip", "name": "front"}],
        "prefixesFromIPPool": [{"key": "length", "name": "front"}],
        "gatewaysFromIPPool": [{"key": "gate", "name": "front"}],
        "dnsServersFromIPPool": [{"key": "dns", "name": "front"}],
        "fromHostInterfaces": [{"key": "mac", "interface": "em1"}, {"key": "boot", "fromBootMAC": True}],
        "fromLabels": [{"key": "rack", "object": "baremetalhost", "label": "rack"}],
        "fromAnnotations": [{"key": "owner", "object": "metal3machine", "annotation": "example.org/owner"}],
    },
    "networkData": {
        "links": {
            "ethernets": [
                {"type": "phy", "id": "em1", "macAddress": {"fromHostInterface": "em1"}},
                {
                    "type": "phy",
                    "id": "em2",
                    "mtu": 9000,
                    "name": "second",
                    "macAddress": {"string": "52:54:00:12:00:02"},
                },
            ],
            "bonds": [
                {
                    "id": "bond9",
                    "bondMode": "active-backup",
                    "bondLinks": ["em1", "em2"],
                    "parameters": {"miimon": 50},
                }
            ],
            "vlans": [{"id": "v7", "vlanID": 7, "vlanLink": "bond9"}],
        },
        "networks": {
            "ipv4": [
                {
                    "id": "front",
                    "link": "v7",
                    "ipAddressFromIPPool": "front",
                    "routes": [
                        {
                            "network": "0.0.0.0",
                            "prefix": 0,
                            "gateway": {"fromIPPool": "front"},
                            "services": {"dns": ["192.0.2.53"], "dnsFromIPPool": "front"},
                        },
                        {"network": "203.0.113.0", "prefix": 24, "gateway": {"string": "192.0.2.9"}},
                    ],
                },
                {"id": "alone", "link": "em2", "fromPoolRef": {"name": "alone"}},
            ],
            "ipv6": [
                {
                    "id": "front6",
                    "link": "v7",
                    "fromPoolAnnotation": {"object": "baremetalhost", "annotation": "example.org/v6"},
                }
            ],
            "ipv4DHCP": [{"id": "lights-out", "link": "em2"}],
            "ipv6SLAAC": [{"id": "by-itself", "link": "em2"}],
        },
        "services": {"dns": ["9.9.9.9"], "dnsFromIPPool": "front"},
    },
}


def source(kind: str, name: str, **more: object) -> schema.Json:
    head = {"name": name, "namespace": server.SITE, "uid": f"uid-{name}", "labels": {"rack": "r1"}}
    notes = {"example.org/owner": "ops", "example.org/v6": "front6"}
    return {"apiVersion": f"{data.GROUP}/v1beta1", "kind": kind, "metadata": {**head, "annotations": notes}, **more}


MACHINE = template.Machine(
    datum=meta.read(source("Metal3Data", "workers-5", spec={"index": 5}), data.Metal3Data),
    machine=meta.read(source("Machine", "m-5"), meta.Resource),
    metal3machine=meta.read(source("Metal3Machine", "mm-5"), meta.Resource),
    baremetalhost=meta.read(
        source(
            "BareMetalHost",
            "rack-1-u-5",
            spec={"bootMACAddress": "52:54:00:12:00:09"},
            status={"hardware": {"nics": [{"name": "em1", "mac": "52:54:00:12:00:01"}]}},
        ),
        data.BareMetalHost,
    ),
)


def read(spec: schema.Json, *, version: str = "v1beta1") -> data.Metal3DataTemplate:
    body = {**source("Metal3DataTemplate", "workers", spec=spec), "apiVersion": f"{data.GROUP}/{version}"}
    definition = definitions.by_kind(data.GROUP, "Metal3DataTemplate")
    assert definition is not None
    assert not list(definitions.check(definition, version, body))
    return meta.read(body, data.Metal3DataTemplate)


def spelled_today() -> schema.Json:
    """Return the same template in v1beta2."""
    spec = copy.deepcopy(SPEC)
    texts, networks = spec["metaData"], spec["networkData"]
    assert isinstance(texts, dict)
    assert isinstance(networks, dict)
    for name in ("ipAddresses", "prefixes", "gateways", "dnsServers"):
        texts[f"{name}FromPool"] = texts.pop(f"{name}FromIPPool")
    networks["links"]["bonds"][0]["parameters"] = [{"name": "miimon", "value": 50}]
    network = networks["networks"]["ipv4"][0]
    network["fromPoolRef"] = {"name": network.pop("ipAddressFromIPPool"), "kind": "IPPool", "apiGroup": ipam.GROUP}
    network["routes"][0]["gateway"] = {"fromPoolRef": {"name": "front"}}
    return spec


BOTH = pytest.mark.parametrize(("spec", "version"), [(SPEC, "v1beta1"), (spelled_today(), "v1beta2")])


@pytest.mark.promise("claims-49", "claims-20")
@BOTH
def test_metadata_has_each_item_under_its_key(spec: schema.Json, version: str) -> None:
    assert template.metadata(read(spec, version=version), MACHINE, GIFTS) == {
        "site": "north",
        "name": "m-5",
        "host": "rack-1-u-5",
        "rank": "r23x",
        "space": server.SITE,
        "ip": "192.0.2.10",
        "length": "26",
        "gate": "192.0.2.1",
        "dns": "192.0.2.2,192.0.2.3",
        "mac": "52:54:00:12:00:01",
        "boot": "52:54:00:12:00:09",
        "rack": "r1",
        "owner": "ops",
        "providerid": f"{server.SITE}/rack-1-u-5/mm-5",
    }


@pytest.mark.promise("claims-20")
@pytest.mark.parametrize("pool", GIFTS)
def test_a_template_fetches_what_the_address_object_says(pool: str) -> None:
    values = GIFTS[pool]
    body = server.address("taken", values.address, claim="m-5")
    spec = body["spec"]
    assert isinstance(spec, dict)
    spec |= {"prefix": values.prefix, "gateway": values.gateway, "dnsServers": list(values.dns_servers)}
    address = server.struct(body)
    assert isinstance(address, ipam.IPAddress)
    assert template.values_of(address) == values


@pytest.mark.promise("claims-49")
@pytest.mark.parametrize(
    ("version", "suffix"), [("v1beta1", "FromIPPool"), ("v1beta2", "FromPool")], ids=["v1beta1", "v1beta2"]
)
@pytest.mark.parametrize("kind", ["ipAddresses", "prefixes", "gateways", "dnsServers"])
def test_an_item_of_any_kind_alone_brings_a_claim_of_its_pool(version: str, suffix: str, kind: str) -> None:
    items: list[schema.Json] = [{"key": "first", "name": "front"}, {"key": "second", "name": "front6"}]
    spec: schema.Json = {"clusterName": "edge", "metaData": {f"{kind}{suffix}": items}}
    claims = template.claims(read(spec, version=version), MACHINE)
    assert [claim.pool.name for claim in claims] == ["front", "front6"]
    expected = {
        "ipAddresses": ("192.0.2.10", "2001:db8:7::10"),
        "prefixes": ("26", "64"),
        "gateways": ("192.0.2.1", "2001:db8:7::1"),
        "dnsServers": ("192.0.2.2,192.0.2.3", ""),
    }[kind]
    rendered = template.metadata(read(spec, version=version), MACHINE, GIFTS)
    assert (rendered["first"], rendered["second"]) == expected


@pytest.mark.promise("claims-50")
@BOTH
def test_network_data_is_what_openstack_has(spec: schema.Json, version: str) -> None:
    servers = [{"type": "dns", "address": text} for text in ("192.0.2.2", "192.0.2.3")]
    mac = "52:54:00:12:00:01"
    assert template.network_data(read(spec, version=version), MACHINE, GIFTS) == {
        "links": [
            {
                "type": "bond",
                "id": "bond9",
                "mtu": 1500,
                "bond_mode": "active-backup",
                "bond_links": ["em1", "em2"],
                "bond_miimon": 50,
                "ethernet_mac_address": mac,
            },
            {"type": "phy", "id": "em1", "mtu": 1500, "ethernet_mac_address": mac},
            {"type": "phy", "id": "em2", "mtu": 9000, "name": "second", "ethernet_mac_address": "52:54:00:12:00:02"},
            {"type": "vlan", "id": "v7", "mtu": 1500, "vlan_link": "bond9", "vlan_id": 7, "vlan_mac_address": mac},
        ],
        "networks": [
            {
                "type": "ipv4",
                "id": "front",
                "network_id": "front",
                "link": "v7",
                "ip_address": "192.0.2.10",
                "netmask": "255.255.255.192",
                "routes": [
                    {
                        "network": "0.0.0.0",
                        "netmask": "0.0.0.0",
                        "gateway": "192.0.2.1",
                        "services": [{"type": "dns", "address": "192.0.2.53"}, *servers],
                    },
                    {"network": "203.0.113.0", "netmask": "255.255.255.0", "gateway": "192.0.2.9", "services": []},
                ],
            },
            {
                "type": "ipv4",
                "id": "alone",
                "network_id": "alone",
                "link": "em2",
                "ip_address": "198.51.100.7",
                "netmask": "255.255.255.255",
                "routes": [],
            },
            {
                "type": "ipv6",
                "id": "front6",
                "network_id": "front6",
                "link": "v7",
                "ip_address": "2001:db8:7::10",
                "netmask": "ffff:ffff:ffff:ffff::",
                "routes": [],
            },
            {"type": "ipv4_dhcp", "id": "lights-out", "network_id": "lights-out", "link": "em2", "routes": []},
            {"type": "ipv6_slaac", "id": "by-itself", "network_id": "by-itself", "link": "em2", "routes": []},
        ],
        "services": [{"type": "dns", "address": "9.9.9.9"}, *servers],
    }


@pytest.mark.promise("claims-35", "claims-51")
@BOTH
def test_there_is_one_claim_for_each_pool_owned_by_the_data_object(spec: schema.Json, version: str) -> None:
    claims = template.claims(read(spec, version=version), MACHINE)
    assert sorted(each.metadata.name for each in claims) == ["workers-5-alone", "workers-5-front", "workers-5-front6"]
    for claim in claims:
        assert isinstance(claim, ipam.IPClaim)
        assert [(owner.kind, owner.uid, owner.controller) for owner in claim.metadata.owner_references] == [
            ("Metal3Data", "uid-workers-5", True)
        ]
        assert claim.metadata.finalizers == (data.FINALIZER,)


def test_claims_are_named_after_the_host_on_request() -> None:
    claims = template.claims(read(SPEC), MACHINE, named_by_host=True)
    assert sorted(each.metadata.name for each in claims) == [
        "rack-1-u-5-alone",
        "rack-1-u-5-front",
        "rack-1-u-5-front6",
    ]
    assert {each.metadata.labels[template.DATA_LABEL] for each in claims} == {"workers-5"}


def test_the_pool_of_another_provider_gets_a_claim_of_cluster_api() -> None:
    other = {"name": "other", "kind": "InClusterIPPool", "apiGroup": capi.GROUP}
    spec: schema.Json = {"networkData": {"networks": {"ipv4": [{"id": "a", "link": "b", "fromPoolRef": other}]}}}
    (claim,) = template.claims(read(spec), MACHINE)
    assert isinstance(claim, capi.IPAddressClaim)
    assert claim.spec.pool_ref == capi.PoolRef(name="other", kind="InClusterIPPool", api_group=capi.GROUP)


def test_metadata_asks_the_pool_of_the_kind_that_it_says() -> None:
    other = {"name": "other", "kind": "InClusterIPPool", "apiGroup": capi.GROUP}
    spec_read = read({"metaData": {"ipAddressesFromPool": [{"key": "ip", **other}]}}, version="v1beta2")
    (claim,) = template.claims(spec_read, MACHINE)
    assert isinstance(claim, capi.IPAddressClaim)
    assert claim.spec.pool_ref.kind == "InClusterIPPool"
    gifts = {"other": template.PoolValues("192.0.2.77", 24)}
    assert template.metadata(spec_read, MACHINE, gifts)["ip"] == "192.0.2.77"


@pytest.mark.promise("claims-52")
def test_what_the_claims_got_is_what_the_texts_say() -> None:
    api = server.Server()
    api.create(server.pool("front", prefix=26, gateway="10.0.0.4"))
    spec: schema.Json = {
        "networkData": {"networks": {"ipv4": [{"id": "a", "link": "b", "ipAddressFromIPPool": "front"}]}}
    }
    spec_read = read(spec)
    with pytest.raises(errors.NotFoundError, match="no address has been allocated from pool front yet"):
        template.network_data(spec_read, MACHINE, {})
    (claim,) = template.claims(spec_read, MACHINE)
    api.create(claim.to_json())
    server.Controller(api).settle()
    got = server.struct(api.get(meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "front-10-0-0-1")))
    assert isinstance(got, ipam.IPAddress)
    rendered = template.network_data(spec_read, MACHINE, {"front": template.values_of(got)})
    assert rendered["networks"] == [
        {
            "type": "ipv4",
            "id": "a",
            "network_id": "a",
            "link": "b",
            "ip_address": "10.0.0.1",
            "netmask": "255.255.255.192",
            "routes": [],
        }
    ]


def broken(path: str, value: object) -> schema.Json:
    spec: schema.Json = copy.deepcopy(SPEC)
    part: object = spec
    *way, last = path.split(".")
    for step in way:
        part = part[int(step)] if isinstance(part, list) else part[step]  # type: ignore[index]
    part[last] = value  # type: ignore[index]
    return spec


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (broken("networkData.links.ethernets.0.macAddress", {"fromHostInterface": "em9"}), "has no NIC em9"),
        (broken("networkData.links.bonds.0.parameters", {"mode": "4"}), "parameter mode of bond bond9"),
        (broken("networkData.networks.ipv6.0.fromPoolAnnotation.annotation", "none"), "has no annotation none"),
        (broken("networkData.networks.ipv6", [{"id": "x", "link": "v7", "ipAddressFromIPPool": "front"}]), "is ipv6"),
        (broken("networkData.networks.ipv4.0.routes.1.prefix", 33), "33 is invalid for IPv4"),
        (broken("networkData.networks.ipv4.1.fromPoolRef.name", "long"), "64 is invalid for IPv4"),
        (broken("networkData.networks.ipv4.0.routes.1.network", "net"), "'net' is not an IP address"),
    ],
)
def test_what_cannot_be_rendered_is_said(spec: schema.Json, reason: str) -> None:
    with pytest.raises(errors.GantryError, match=reason):
        template.network_data(read(spec), MACHINE, GIFTS)


def test_the_text_of_a_secret_reads_back_as_what_was_rendered() -> None:
    rendered = template.metadata(read(SPEC), MACHINE, GIFTS)
    assert yaml.safe_load(template.text(rendered)) == rendered
    assert list(yaml.safe_load(template.text(rendered))) == sorted(rendered)


def test_pools_of_one_name_and_two_kinds_are_refused() -> None:
    spec = broken("networkData.networks.ipv4.1.fromPoolRef", {"name": "front", "kind": "Other"})
    with pytest.raises(errors.InvalidError, match="both as IPPool and as Other"):
        template.pools(read(spec), MACHINE)


def test_the_lowest_free_index_is_next() -> None:
    assert [template.next_index(used) for used in ([], [0, 1], [1, 2], [0, 2, 1, 5])] == [0, 2, 0, 3]


@pytest.mark.promise("claims-11")
@BOTH
def test_dhcp_is_written_only_where_the_template_asks_for_it(spec: schema.Json, version: str) -> None:
    def types(network_data: schema.Json) -> list[str]:
        rendered = template.network_data(read(network_data, version=version), MACHINE, GIFTS)
        networks = rendered["networks"]
        assert isinstance(networks, list)
        return [entry["type"] for entry in networks]

    assert types(spec) == ["ipv4", "ipv4", "ipv6", "ipv4_dhcp", "ipv6_slaac"]
    fixed = copy.deepcopy(spec)
    data_of = fixed["networkData"]
    assert isinstance(data_of, dict)
    data_of["networks"] = {family: data_of["networks"][family] for family in ("ipv4", "ipv6")}
    assert types(fixed) == ["ipv4", "ipv4", "ipv6"]
