"""Fields, filters, sorting and pages of lists: the functions alone, and through the API."""

import pytest
from tests.doors.neutron.talk import MEMBER, NETWORKS, POOLS, PORTS, RANGES, SUBNETS, Object, Talk

from gantry.doors.neutron import faults, listing
from gantry.doors.neutron.resources import networks, ports, ranges, subnetpools, subnets

ROWS: list[listing.Representation] = [
    {"id": "c", "name": "x", "tags": ["red", "blue"]},
    {"id": "a", "name": "y", "tags": []},
    {"id": "b", "name": "x", "tags": ["red"]},
]


def _ids(rows: list[listing.Representation]) -> str:
    return "".join(str(row["id"]) for row in rows)


def _chosen(**query: str) -> str:
    what = listing.read(
        networks.TABLE, {name.replace("_tags", "-tags"): [text] for name, text in query.items()}, admin=True
    )
    return _ids(listing.page(listing.select(ROWS, what), what))


def test_rows_are_sorted_by_id_unless_a_query_asks_for_another_order() -> None:
    assert _chosen() == "abc"
    assert _chosen(sort_key="name", sort_dir="desc") == "abc"
    assert _chosen(sort_key="name", sort_dir="asc") == "bca"
    assert _chosen(sort_key="id", sort_dir="desc") == "cba"


def test_filters_are_exact_and_tags_are_sets() -> None:
    assert (_chosen(name="x"), _chosen(name="z"), _chosen(id="a")) == ("bc", "", "a")
    assert (_chosen(tags="red,blue"), _chosen(tags="red")) == ("c", "bc")
    assert (_chosen(not_tags="red"), _chosen(not_tags="red,blue")) == ("a", "ab")


def test_pages_follow_each_other_in_both_directions() -> None:
    assert (_chosen(limit="2"), _chosen(limit="2", marker="b"), _chosen(limit="2", marker="c")) == ("ab", "c", "")
    assert (_chosen(limit="2", page_reverse="True"), _chosen(limit="1", page_reverse="1", marker="b")) == ("bc", "a")
    assert (_chosen(limit="2", marker="nope"), _chosen(marker="b"), _chosen(limit="0")) == ("ab", "abc", "abc")


def test_filters_match_addresses() -> None:
    row: listing.Representation = {"id": "a", "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.7"}]}
    for text, expected in (
        ("ip_address=10.0.0.7", "a"), ("ip_address=10.0.0.8", ""), ("subnet_id=s", "a"),
        ("ip_address_substr=0.0.7", "a"), ("ip_address_substr=1.1", ""),
    ):  # fmt: skip
        what = listing.read(ports.TABLE, {"fixed_ips": [text]}, admin=True)
        assert _ids(listing.select([row], what)) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["ip_address=10.0.0.7", "ip_address=10.0.0.8"], "ab"), (["ip_address=10.0.0.7", "subnet_id=s"], "a"),
        (["ip_address=10.0.0.7", "subnet_id=t"], ""), (["ip_address_substr=0.7", "ip_address_substr=9.9"], "a"),
        (["subnet_id=s", "subnet_id=t"], "ab"),
    ],
    ids=str,
)  # fmt: skip
def test_several_values_for_the_same_part_of_an_address_are_alternatives(texts: list[str], expected: str) -> None:
    rows: list[listing.Representation] = [
        {"id": "a", "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.7"}]},
        {"id": "b", "fixed_ips": [{"subnet_id": "t", "ip_address": "10.0.0.8"}]},
    ]
    assert _ids(listing.select(rows, listing.read(ports.TABLE, {"fixed_ips": texts}, admin=True))) == expected


def test_the_link_to_the_next_page_keeps_a_filter_for_an_empty_value() -> None:
    what = listing.read(networks.TABLE, {"name": [""], "limit": ["1"]}, admin=True)
    (following, _) = listing.links(ROWS[:1], what, address="a", query="name=&limit=1&marker=x")
    assert following["href"] == "a?name=&limit=1&marker=c"


def test_a_mac_address_is_found_in_upper_and_lower_case() -> None:
    what = listing.read(ports.TABLE, {"mac_address": ["FA:16:3E:00:00:01"]}, admin=True)
    assert listing.master_filter(ports.TABLE, what, visible=None) == ["&", ["|", ["=", "mac", "fa:16:3e:00:00:01"]]]


def test_the_master_gets_the_filters_that_it_can_apply() -> None:
    what = listing.read(ports.TABLE, {"network_id": ["u"], "status": ["DOWN"], "name": ["n", "m"]}, admin=False)
    own: list[object] = ["=", "project", "green"]
    assert listing.master_filter(ports.TABLE, what, visible=own) == [
        "&", ["|", ["=", "network_uuid", "u"]], ["|", ["=", "name", "n"], ["=", "name", "m"]], own,
    ]  # fmt: skip
    assert listing.master_filter(ports.TABLE, listing.read(ports.TABLE, {}, admin=True), visible=None) is None


def test_the_master_finds_ports_by_their_addresses() -> None:
    texts = ["ip_address=10.0.0.7", "ip_address=10.0.0.8", "subnet_id=s", "ip_address_substr=.0."]
    what = listing.read(ports.TABLE, {"fixed_ips": texts}, admin=True)
    assert listing.master_filter(ports.TABLE, what, visible=None) == [
        "&",
        ["|", ["=[]", "ip", "10.0.0.7"], ["=[]", "ip", "10.0.0.8"]],
        ["|", ["=~", "ip", r"\.0\."]],
        ["|", ["=[]", "fixed", "s"]],
    ]  # fmt: skip


@pytest.mark.parametrize("part", ["x", "(", "1" * 40, "1\n"], ids=repr)
def test_a_text_that_no_address_contains_is_not_an_expression_for_the_master(part: str) -> None:
    what = listing.read(ports.TABLE, {"fixed_ips": [f"ip_address_substr={part}"]}, admin=True)
    assert listing.master_filter(ports.TABLE, what, visible=None) == ["&", ["|"]]
    both = listing.read(ports.TABLE, {"fixed_ips": [f"ip_address_substr={part}", "ip_address_substr=7"]}, admin=True)
    assert listing.master_filter(ports.TABLE, both, visible=None) == ["&", ["|", ["=~", "ip", "7"]]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "fixed_ips=ip_adress=10.0.0.7",
            "['ip_adress'] is invalid key for filtering fixed_ips; did you mean ip_address?",
        ),
        ("fixed_ips=10.0.0.7", "['10.0.0.7'] is invalid key for filtering fixed_ips"),
        ("nmae=x", "['nmae'] is invalid attribute for filtering; did you mean name?"),
        ("feilds=id", "['feilds'] is invalid attribute for filtering; did you mean fields?"),
        ("sort_key=nmae&sort_dir=asc", "['nmae'] is invalid attribute for sort_keys; did you mean name?"),
    ],
)
def test_a_name_that_is_nearly_right_is_named(client: Talk, query: str, message: str) -> None:
    status, _, text = client.refused("GET", f"{PORTS}?{query}")
    assert (status, text) == (400, message)


@pytest.mark.parametrize(
    ("name", "admin", "near"),
    [
        ("statsu", False, "; did you mean status?"),
        ("subents", True, ""),
        ("provider:network_tpye", True, "; did you mean provider:network_type?"),
        ("provider:network_tpye", False, ""),
    ],
)
def test_a_name_is_proposed_if_it_filters_for_who_lists(name: str, admin: bool, near: str) -> None:
    with pytest.raises(faults.FaultError) as refusal:
        listing.read(networks.TABLE, {name: ["x"]}, admin=admin)
    assert str(refusal.value) == f"['{name}'] is invalid attribute for filtering{near}"


def test_an_attribute_that_is_nearly_right_is_named(client: Talk) -> None:
    status, _, text = client.refused("POST", NETWORKS, {"network": {"nmae": "x"}})
    assert (status, text) == (400, "Unrecognized attribute(s) 'nmae'; did you mean name?")


def test_the_number_of_texts_that_are_looked_for_in_addresses_is_limited() -> None:
    texts = [f"ip_address_substr={number}" for number in range(11)]
    most = listing.read(ports.TABLE, {"fixed_ips": texts[:10]}, admin=True)
    assert listing.master_filter(ports.TABLE, most, visible=None)
    more = listing.read(ports.TABLE, {"fixed_ips": texts}, admin=True)
    with pytest.raises(faults.FaultError, match="at most 10 values of ip_address_substr") as refusal:
        listing.master_filter(ports.TABLE, more, visible=None)
    assert refusal.value.status == 400


def test_ports_are_found_by_an_address_and_by_a_part_of_it(seeded: Talk) -> None:
    network = seeded.add(NETWORKS, {"name": "addressed"})
    subnets_of_network = [
        seeded.add(SUBNETS, {"network_id": network["id"], "ip_version": version, "cidr": cidr})
        for version, cidr in ((4, "10.8.0.0/24"), (6, "2001:db8:8::/64"))
    ]
    for name, addresses in (("low", ("10.8.0.7", "2001:db8:8::7")), ("high", ("10.8.0.77",))):
        fixed: list[object] = [{"ip_address": address} for address in addresses]
        seeded.add(PORTS, {"network_id": network["id"], "name": name, "fixed_ips": fixed})
    four, six = (each["id"] for each in subnets_of_network)
    expected = {
        "fixed_ips=ip_address=10.8.0.7": ["low"],
        "fixed_ips=ip_address=2001:db8:8::7": ["low"],
        "fixed_ips=ip_address=10.8.0.7&fixed_ips=ip_address=10.8.0.77": ["high", "low"],
        f"fixed_ips=ip_address=10.8.0.7&fixed_ips=subnet_id={six}": ["low"],
        f"fixed_ips=ip_address=10.8.0.77&fixed_ips=subnet_id={six}": [],
        f"fixed_ips=subnet_id={four}": ["high", "low"],
        "fixed_ips=ip_address_substr=8.0.7": ["high", "low"],
        "fixed_ips=ip_address_substr=8:0.7": [],
        "fixed_ips=ip_address_substr=(": [],
        "fixed_ips=ip_address_substr=": ["high", "low"],
        "fixed_ips=ip_address_substr=(&fixed_ips=ip_address_substr=8::7": ["low"],
        f"fixed_ips=ip_address_substr=8.0.7&network_id={network['id']}": ["high", "low"],
        "fixed_ips=ip_address=10.8.0.7&limit=1": ["low"],
        "fixed_ips=ip_address=10.8.0.7&fields=name": ["low"],
    }
    for query, names in expected.items():
        assert sorted(str(port["name"]) for port in seeded.get(f"{PORTS}?{query}").all("ports")) == names, query
    seeded.clear_ports()
    assert seeded.say("DELETE", f"{NETWORKS}/{network['id']}").status == 204


LISTS = {
    "network": (networks.TABLE, "name admin_state_up project_id shared status router:external "
                "provider:network_type provider:physical_network provider:segmentation_id"),
    "subnet": (subnets.TABLE, "name project_id ip_version enable_dhcp network_id gateway_ip cidr subnetpool_id "
               "service_types"),
    "port": (ports.TABLE, "name project_id network_id mac_address device_owner device_id fixed_ips status "
             "binding:host_id security_groups"),
    "subnetpool": (subnetpools.TABLE, "name project_id shared is_default address_scope_id"),
}  # fmt: skip
"""The filters that the options of the stock client's list commands set."""


@pytest.mark.parametrize("noun", LISTS)
def test_what_the_options_of_the_stock_client_set_are_filters(noun: str) -> None:
    table, names = LISTS[noun]
    for name in names.split():
        text = "ip_address=10.0.0.7" if name == "fixed_ips" else "1"
        assert listing.read(table, {name: [text]}, admin=True).filters, name


SORTED = {
    "network": "id name admin_state_up project_id tenant_id status",
    "subnet": "id name project_id tenant_id network_id subnetpool_id cidr ip_version enable_dhcp gateway_ip "
    "ipv6_ra_mode ipv6_address_mode",
    "port": "id name project_id tenant_id network_id mac_address admin_state_up device_id device_owner status",
    "subnetpool": "id name project_id tenant_id default_quota ip_version is_default shared",
}
"""What Neutron sorts by (neutron-lib, the attributes with ``is_sort_key``), but for the prefix lengths of a pool."""


@pytest.mark.parametrize("noun", SORTED)
def test_lists_are_sorted_by_what_neutron_sorts_them_by(noun: str) -> None:
    table, _ = LISTS[noun]
    for name in SORTED[noun].split():
        assert listing.read(table, {"sort_key": [name], "sort_dir": ["asc"]}, admin=True).order == [(name, False)]


def test_ports_and_subnet_pools_are_sorted_by_values_that_only_answers_have(seeded: Talk) -> None:
    network = seeded.add(NETWORKS, {"name": "sorted"})
    for name, device in (("first", "b"), ("second", "c"), ("third", "a")):
        seeded.add(PORTS, {"network_id": network["id"], "name": name, "device_id": device})
    listed = seeded.get(f"{PORTS}?network_id={network['id']}&sort_key=device_id&sort_dir=desc").all("ports")
    assert [port["name"] for port in listed] == ["second", "first", "third"]
    for name, prefix, quota in (
        ("small", "2001:db8:77::/48", 9),
        ("none", "10.77.0.0/16", None),
        ("large", "10.78.0.0/16", 80),
    ):
        seeded.add(POOLS, {"name": name, "prefixes": [prefix], "default_quota": quota})
    listed = seeded.get(f"{POOLS}?sort_key=default_quota&sort_dir=asc&name=small&name=none&name=large").all(
        "subnetpools"
    )
    assert [pool["name"] for pool in listed] == ["none", "small", "large"]
    assert [pool["name"] for pool in seeded.get(f"{POOLS}?default_quota=9").all("subnetpools")] == ["small"]
    six = seeded.get(f"{POOLS}?ip_version=6&name=small&name=large").all("subnetpools")
    assert [pool["name"] for pool in six] == ["small"]
    for pool in seeded.get(POOLS).all("subnetpools"):
        seeded.say("DELETE", f"{POOLS}/{pool['id']}")
    seeded.clear_ports()
    assert seeded.say("DELETE", f"{NETWORKS}/{network['id']}").status == 204


def test_what_the_cluster_does_not_have_can_be_searched_for(seeded: Talk) -> None:
    """``openstack network list --external`` and its like find nothing; they are not refused."""
    network = seeded.add(NETWORKS, {"name": "inner", "router:external": "false"})
    port = seeded.add(PORTS, {"network_id": network["id"], "name": "inner"})
    expected = {
        f"{NETWORKS}?name=inner&router:external=False": 1,
        f"{NETWORKS}?router:external=True": 0,
        f"{NETWORKS}?name=inner&status=ACTIVE": 1,
        f"{NETWORKS}?status=DOWN": 0,
        f"{PORTS}?name=inner&binding:host_id=": 1,
        f"{PORTS}?binding:host_id=node1": 0,
        f"{PORTS}?security_groups=web": 0,
        f"{SUBNETS}?service_types=network:dhcp": 0,
        f"{POOLS}?address_scope_id={network['id']}": 0,
    }
    for query, number in expected.items():
        noun = query.partition("?")[0].rpartition("/")[2]
        assert len(seeded.get(query).all(noun)) == number, query
    wrong = seeded.get(f"{NETWORKS}?router:external=perhaps")
    assert (wrong.status, "cannot be converted to boolean" in str(wrong.body)) == (400, True)
    assert seeded.say("DELETE", f"{PORTS}/{port['id']}").status == 204
    assert seeded.say("DELETE", f"{NETWORKS}/{network['id']}").status == 204


def test_subnets_are_found_by_the_version_of_their_addresses(seeded: Talk) -> None:
    network = seeded.add(NETWORKS, {"name": "both"})
    ids = {}
    for version, cidr in ((4, "10.9.0.0/24"), (6, "2001:db8:9::/64")):
        subnet = seeded.add(SUBNETS, {"network_id": network["id"], "ip_version": version, "cidr": cidr})
        ids[version] = subnet["id"]
    for version, subnet_id in ids.items():
        listed = seeded.get(f"{SUBNETS}?network_id={network['id']}&ip_version={version}").all("subnets")
        assert [each["id"] for each in listed] == [subnet_id]
    assert seeded.say("DELETE", f"{NETWORKS}/{network['id']}").status == 204


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("shared=False", "['shared'] is invalid attribute for filtering"),
        ("default=True", "['default'] is invalid attribute for filtering"),
        ("minimum=8000", "['minimum'] is invalid attribute for filtering"),
        ("used=1", "['used'] is invalid attribute for filtering"),
        ("nope=1", "['nope'] is invalid attribute for filtering"),
        ("created_at=x", "['created_at'] is invalid attribute for filtering"),
        ("changed-since=2000-01-01T00:00:00", "['changed-since'] is invalid attribute for filtering"),
        ("sort_key=id", "The number of sort_keys and sort_dirs must be same"),
        ("sort_dir=asc", "The number of sort_keys and sort_dirs must be same"),
        ("sort_key=minimum&sort_dir=asc", "['minimum'] is invalid attribute for sort_keys"),
        ("sort_key=nope&sort_dir=asc", "['nope'] is invalid attribute for sort_keys"),
        ("sort_key=name&sort_dir=sideways",
         "['sideways'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'"),
        ("limit=-1", "Bad limit request: Limit must be an integer 0 or greater and not '-1'."),
        ("limit=x", "Bad limit request: Limit must be an integer 0 or greater and not 'x'."),
        ("limit=99999999999", "Bad limit request: Limit must be an integer 0 or greater and not '99999999999'."),
        ("revision_number=x", "Invalid input for operation: 'x' is not an integer."),
        ("&".join(["a=1"] * 3000), ""),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_query_that_is_not_valid_is_refused(client: Talk, query: str, message: str) -> None:
    status, _, text = client.refused("GET", f"{RANGES}?{query}")
    assert status == 400
    assert message in text


@pytest.fixture(scope="module")
def seeded(client: Talk) -> Talk:
    client.clear()
    for number in range(5):
        own: Object = {"shared": False, "project_id": "green" if number else "blue"} if number % 2 == 0 else {}
        bounds = {"minimum": 8000 + 10 * number, "maximum": 8001 + 10 * number}
        client.add(RANGES, {"name": f"f{number % 2}", "network_type": "vxlan", **bounds, **own})
    return client


def _names(client: Talk, query: str) -> list[object]:
    return [each.get("minimum") for each in client.get(f"{RANGES}?{query}").all("network_segment_ranges")]


def test_ranges_are_filtered_by_what_they_are(seeded: Talk) -> None:
    assert sorted(map(str, _names(seeded, "name=f0"))) == ["8000", "8020", "8040"]
    assert len(_names(seeded, "name=f0&name=f1")) == 5
    assert len(_names(seeded, "network_type=vxlan")) == 6
    assert _names(seeded, "network_type=nope") == []
    assert sorted(map(str, _names(seeded, "project_id=green"))) == ["8020", "8040"]
    assert sorted(map(str, _names(seeded, "tenant_id=green"))) == ["8020", "8040"]
    assert _names(seeded, "physical_network=physnet1") == [100]
    assert _names(seeded, "id=33") == []
    assert len(_names(seeded, "revision_number=0")) == 7
    assert len(_names(seeded, "description=")) == 5


def test_fields_select_the_attributes_in_answers(seeded: Talk) -> None:
    rows = seeded.get(f"{RANGES}?fields=minimum&fields=name&name=f1").all("network_segment_ranges")
    assert sorted(rows, key=str) == [{"minimum": 8010, "name": "f1"}, {"minimum": 8030, "name": "f1"}]
    assert seeded.get(f"{RANGES}?fields=nope&name=f1").all("network_segment_ranges") == [{}, {}]
    assert seeded.get(f"{RANGES}?fields=used&name=f1").all("network_segment_ranges") == [{"used": {}}] * 2


def test_pages_have_links_that_lead_through_all(seeded: Talk) -> None:
    path, ids = f"{RANGES}?limit=3&sort_key=id&sort_dir=asc", []
    while True:
        answer = seeded.get(path)
        rows = answer.all("network_segment_ranges")
        ids += [row["id"] for row in rows]
        links = {link["rel"]: str(link["href"]) for link in answer.all("network_segment_ranges_links")}
        if "next" not in links:
            break
        assert (
            links["next"] == f"https://network.example{RANGES}?limit=3&sort_key=id&sort_dir=asc&marker={rows[-1]['id']}"
        )
        path = links["next"].removeprefix("https://network.example")
    assert len(ids) == 7
    assert ids == sorted(ids, key=str)
    assert links["previous"].endswith("&page_reverse=True")


def test_attributes_that_are_not_filters_are_refused(seeded: Talk) -> None:
    rows = seeded.get(f"{NETWORKS}?fields=id").all("networks")
    assert rows == []
    with pytest.raises(faults.FaultError):
        listing.read(ranges.TABLE, {"available": ["1"]}, admin=True)


def test_members_see_only_objects_of_their_project(seeded: Talk) -> None:
    assert _names_of(seeded, PORTS) == []
    assert seeded.get(f"{RANGES}?name=f1", who=MEMBER).body == {"network_segment_ranges": []}


def _names_of(client: Talk, path: str) -> list[object]:
    return [each["name"] for each in client.get(path, who=MEMBER).all(path.rpartition("/")[2])]


def test_numbers_are_found_by_their_text() -> None:
    what = listing.read(networks.TABLE, {"provider:segmentation_id": ["402"]}, admin=True)
    rows: list[listing.Representation] = [{"id": "a", "provider:segmentation_id": 402}, {"id": "b"}]
    assert _ids(listing.select(rows, what)) == "a"
