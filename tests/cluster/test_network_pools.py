"""Pools and reservations, and the addresses that instances get from them."""

import msgspec
import pytest
from tests.cluster import wires


@pytest.mark.promise("networks-11")
@pytest.mark.parametrize("ip", ["192.0.2.9", "2001:db8:5::9"])
def test_an_address_lies_in_a_subnet_and_has_one_user(lan: wires.Wire, ip: str) -> None:
    lan.modify("--subnet add:cidr=2001:db8:5::/64")
    assert lan.use(f"ip={ip}") == [ip]
    assert f"{ip} in network {lan.name} is in use by instance {lan.instances[0]}" in lan.not_given(f"ip={ip}")
    other = ip.replace(".2.", ".7.").replace("db8:5", "db8:7")
    assert f"address {other} is outside every subnet of network {lan.name}" in lan.not_given(f"ip={other}")


@pytest.mark.promise("networks-12")
def test_an_address_comes_from_a_pool_or_is_named(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.12")
    assert lan.use("ip0=pool,ip1=192.0.2.77,ip2=pool") == ["192.0.2.10", "192.0.2.77", "192.0.2.11"]
    assert lan.use("ip=192.0.2.12") == ["192.0.2.12"]
    assert "is full" in lan.not_given("ip=pool")


@pytest.mark.promise("networks-64")
def test_the_addresses_of_a_card_are_one_list_in_the_opcode_of_the_job(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.12,name=named")
    assert lan.use("ip0=192.0.2.4,ip1=pool,ip2=named") == ["192.0.2.4", "192.0.2.10", "192.0.2.11"]
    with lan.cluster.luxi() as luxi:
        jobs = msgspec.convert(luxi.value("QueryJobs", None, ["ops"]), list[tuple[list[dict[str, object]]]])
    (created,) = [ops[0] for (ops,) in jobs if ops[0].get("instance_name") == lan.instances[0]]
    assert created["nics"] == [{"ip": ["192.0.2.4", "pool", "named"], "network": lan.name}]


@pytest.mark.promise("networks-54", "networks-55")
def test_addresses_go_pool_by_pool_and_subnet_by_subnet_and_named_ones_are_looked_up_in_all(lan: wires.Wire) -> None:
    lan.modify("--subnet add:cidr=2001:db8:5::/64")
    lan.modify("--pool add:192.0.2.10-192.0.2.12 --pool add:192.0.2.5 --pool add:2001:db8:5::10-2001:db8:5::11")
    lan.modify("--add-reserved-ips 192.0.2.11,192.0.2.77")
    assert lan.use("ip0=2001:db8:5::10,ip1=192.0.2.12") == ["2001:db8:5::10", "192.0.2.12"]
    assert lan.use(",".join(f"ip{index}=pool" for index in range(3))) == ["192.0.2.10", "192.0.2.5", "2001:db8:5::11"]
    assert "is full" in lan.not_given("ip=pool")
    for address in ("192.0.2.5", "2001:db8:5::11"):
        assert f"{address} in network {lan.name} is in use by instance" in lan.not_given(f"ip={address}")
    for address in ("192.0.2.11", "192.0.2.77"):
        assert f"{address} of network {lan.name} is reserved" in lan.not_given(f"ip={address}")
    assert "is outside every subnet" in lan.not_given("ip=2001:db8:6::1")
    lan.free(lan.instances[0])
    assert lan.use("ip=pool") == ["192.0.2.12"]


@pytest.mark.promise("networks-14")
def test_what_instances_use_is_reserved_as_long_as_they_do(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.13")
    assert lan.use("ip0=pool,ip1=192.0.2.12") == ["192.0.2.10", "192.0.2.12"]
    assert lan.query("map", "free_count", "reserved_count") == ["X.X.", 2, 2]
    lan.free(lan.instances[0])
    assert lan.query("map", "free_count", "reserved_count") == ["....", 4, 0]


@pytest.mark.promise("networks-15")
def test_what_the_administrator_reserves_no_pool_gives(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.13 --add-reserved-ips 192.0.2.10,192.0.2.12")
    assert lan.query("map", "external_reservations") == ["X.X.", "192.0.2.10, 192.0.2.12"]
    assert lan.use("ip0=pool,ip1=pool") == ["192.0.2.11", "192.0.2.13"]
    assert "is full" in lan.not_given("ip=pool")
    assert "192.0.2.12" in lan.not_given("ip=192.0.2.12")
    lan.modify("--remove-reserved-ips 192.0.2.12")
    assert lan.use("ip=pool") == ["192.0.2.12"]


@pytest.mark.promise("networks-17")
def test_an_address_in_use_is_reserved_for_later(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.11")
    assert lan.use("ip=pool") == ["192.0.2.10"]
    lan.modify("--add-reserved-ips 192.0.2.10")
    assert lan.info()["addresses in use"] == {"192.0.2.10": f"{lan.instances[0]}, NIC 0"}
    lan.free(lan.instances[0])
    assert lan.use("ip=pool") == ["192.0.2.11"]


@pytest.mark.promise("networks-49")
def test_reservations_are_ranges(lan: wires.Wire) -> None:
    lan.modify("--add-reserved-ips 192.0.2.20-192.0.2.50,192.0.2.77")
    assert lan.external == ["192.0.2.20-192.0.2.50", "192.0.2.77"]
    lan.modify("--add-reserved-ips 192.0.2.64/29 --remove-reserved-ips 192.0.2.30-192.0.2.39,192.0.2.77")
    assert lan.external == ["192.0.2.20-192.0.2.29", "192.0.2.40-192.0.2.50", "192.0.2.64-192.0.2.71"]
    output = lan.refused("--add-reserved-ips 192.0.2.45-192.0.2.60")
    assert "192.0.2.45-192.0.2.60 overlaps external reservation 192.0.2.40-192.0.2.50" in output
    assert "no address of 192.0.2.30 is reserved externally" in lan.refused("--remove-reserved-ips 192.0.2.30")


@pytest.mark.promise("networks-51")
def test_reservations_lie_over_pools_and_addresses_in_use(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.8/29,name=web")
    lan.use("ip=192.0.2.9")
    lan.modify("--add-reserved-ips 192.0.2.0-192.0.2.12")
    (pool,) = lan.subnets[0]["pools"]
    assert (pool["map"], pool["free"]) == ("XXXXX...", 3)
    assert "overlaps pool" in lan.refused("--pool add:192.0.2.15-192.0.2.20")
    assert "overlaps external" in lan.refused("--add-reserved-ips 192.0.2.12-192.0.2.20")
    lan.modify("--pool web:remove")
    assert lan.external == ["192.0.2.0-192.0.2.12"]


@pytest.mark.promise("networks-53")
def test_the_first_free_address_lies_behind_any_number_of_reserved_ones(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=2001:db8:d::/64,pool --add-reserved-ips 2001:db8:d::/65")
    wire.modify("--add-reserved-ips 2001:db8:d:0:8000::1-2001:db8:d:0:8000::5")
    assert wire.use("ip0=pool,ip1=pool") == ["2001:db8:d:0:8000::", "2001:db8:d:0:8000::6"]


@pytest.mark.promise("networks-5", "networks-19")
def test_pools_of_a_subnet_leave_out_what_lies_between(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.11,name=low --pool add:192.0.2.200-192.0.2.201,name=high")
    addresses = [lan.use("ip=pool") for _ in range(3)]
    assert addresses == [["192.0.2.10"], ["192.0.2.11"], ["192.0.2.200"]]
    assert lan.use("ip=high") == ["192.0.2.201"]
    assert f"every pool of network {lan.name} is full" in lan.not_given("ip=pool")
    assert lan.external == []


@pytest.mark.promise("networks-18", "networks-69")
def test_a_pool_is_a_range_with_a_map_of_its_length_and_a_name(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.100,name=web --pool add:192.0.2.120")
    lan.use("ip=192.0.2.12")
    web, unnamed = lan.subnets[0]["pools"]
    assert (web["start"], web["end"], web["name"], web["map"]) == (
        *("192.0.2.10", "192.0.2.100", "web"),
        "..X" + "." * 88,
    )
    assert (unnamed["start"], unnamed["end"], unnamed["name"], unnamed["map"]) == (
        "192.0.2.120",
        "192.0.2.120",
        "",
        ".",
    )


@pytest.mark.promise("networks-37")
def test_pools_come_and_go_by_themselves(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.20,name=web")
    assert lan.use("ip=pool") == ["192.0.2.10"]
    lan.modify("--pool web:remove")
    assert lan.pools == []
    assert lan.cluster.rows("gnt-instance", "nic.ips", lan.instances[0]) == [["192.0.2.10"]]
    assert "has no pool" in lan.not_given("ip=pool")
    lan.modify("--pool add:192.0.2.9-192.0.2.11")
    assert [lan.use("ip=pool"), lan.use("ip=pool")] == [["192.0.2.9"], ["192.0.2.11"]]


@pytest.mark.promise("networks-38", "networks-40")
def test_an_instance_names_the_pool_it_takes_from(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.11 --pool add:192.0.2.20-192.0.2.21,name=some-pool-name")
    assert [name for _, _, name in lan.pools] == ["", "some-pool-name"]
    assert lan.use("ip=some-pool-name") == ["192.0.2.20"]
    lan.modify("--pool some-pool-name:modify,name=web")
    lan.modify("--pool 192.0.2.10-192.0.2.11:modify,name=db")
    assert lan.use("ip0=web,ip1=db") == ["192.0.2.21", "192.0.2.10"]
    assert f"pool web of network {lan.name} is full" in lan.not_given("ip=web")
    assert f"network {lan.name} has no pool some-pool-name" in lan.not_given("ip=some-pool-name")


@pytest.mark.promise("networks-39")
def test_any_pool_means_the_first_with_room(lan: wires.Wire) -> None:
    lan.modify("--subnet add:cidr=10.0.0.0/29,pool --pool add:192.0.2.40-192.0.2.41 --pool add:192.0.2.20")
    addresses = [lan.use("ip=pool") for _ in range(4)]
    assert addresses == [["192.0.2.40"], ["192.0.2.41"], ["192.0.2.20"], ["10.0.0.1"]]


@pytest.mark.promise("networks-41", "networks-52")
def test_pools_are_added_changed_and_removed_one_by_one(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.19,name=a --pool add:192.0.2.30-192.0.2.39,name=b")
    lan.modify("--pool a:modify,name=c --pool remove:192.0.2.32-192.0.2.39 --pool add:192.0.2.50,name=a")
    b = ("192.0.2.30", "192.0.2.31", "b")
    assert lan.pools == [("192.0.2.10", "192.0.2.19", "c"), b, ("192.0.2.50", "192.0.2.50", "a")]
    assert "pool name a is already the name of pool 192.0.2.50" in lan.refused("--pool c:modify,name=a")
    lan.modify("--pool c:modify,name=none --pool a:remove --pool remove:192.0.2.30-192.0.2.31")
    assert lan.pools == [("192.0.2.10", "192.0.2.19", "")]


@pytest.mark.promise("networks-42")
def test_a_pool_needs_a_subnet_and_room_in_it(wire: wires.Wire) -> None:
    assert "outside every subnet of the network (none)" in wire.refused("--pool add:192.0.2.10-192.0.2.20")
    wire.modify("--subnet add:cidr=192.0.2.0/24 --pool add:192.0.2.10-192.0.2.20")
    assert "overlaps pool" in wire.refused("--pool add:192.0.2.20-192.0.2.30")
    assert "overlaps pool" in wire.refused("--pool add:192.0.2.0/24")
    assert "overlaps pool" in wire.refused("--pool add:192.0.2.40-192.0.2.50 --pool add:192.0.2.45")
    assert "outside every subnet of the network (192.0.2.0/24)" in wire.refused("--pool add:10.0.0.0/28")
    assert "extends beyond 192.0.2.0/24" in wire.refused("--pool add:192.0.2.250-192.0.3.5")
    wire.modify("--subnet add:cidr=192.0.3.0/24")
    assert "extends beyond 192.0.2.0/24 and 192.0.3.0/24" in wire.refused("--pool add:192.0.2.250-192.0.3.5")
    assert wire.pools == [("192.0.2.10", "192.0.2.20", "")]


@pytest.mark.promise("networks-43", "networks-44")
def test_the_seeds_own_commands_add_pools_where_they_belong(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=10.0.0.0/24 --subnet add:cidr=192.0.2.0/24")
    wire.modify("--pool add:192.0.2.10-192.0.2.100,name=pool1")
    wire.modify("--pool add:10.0.0.7-10.0.0.20")
    wire.modify("--pool add:10.0.0.100")
    ten, lan = wire.subnets
    assert [(pool["start"], pool["end"]) for pool in ten["pools"]] == [
        ("10.0.0.7", "10.0.0.20"),
        ("10.0.0.100", "10.0.0.100"),
    ]
    assert [(pool["start"], pool["end"], pool["name"]) for pool in lan["pools"]] == [
        ("192.0.2.10", "192.0.2.100", "pool1")
    ]


@pytest.mark.promise("networks-45")
def test_a_new_pool_knows_the_addresses_in_use(lan: wires.Wire) -> None:
    lan.use("ip0=192.0.2.10,ip1=192.0.2.12")
    lan.modify("--pool add:192.0.2.10-192.0.2.13")
    assert lan.query("map") == ["X.X."]
    assert lan.use("ip0=pool,ip1=pool") == ["192.0.2.11", "192.0.2.13"]


@pytest.mark.promise("networks-46", "networks-47")
def test_all_of_a_subnet_becomes_a_pool(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=10.0.0.0/27,pool")
    wire.modify("--subnet add:cidr=10.0.1.0/27,name=some-ident --pool add:subnet=some-ident,name=one")
    wire.modify("--subnet add:cidr=10.0.2.0/27 --pool add:10.0.2.0/27")
    wire.modify("--subnet add:cidr=2001:db8:47::/64 --pool add:subnet=2001:db8:47::/64,name=six")
    assert wire.pools == [
        ("10.0.0.0", "10.0.0.31", ""),
        ("10.0.1.0", "10.0.1.31", "one"),
        ("10.0.2.0", "10.0.2.31", ""),
        ("2001:db8:47::", "2001:db8:47:0:ffff:ffff:ffff:ffff", "six"),
    ]
    assert "has no subnet other" in wire.refused("--pool add:subnet=other")


@pytest.mark.promise("networks-48")
def test_taking_the_middle_out_of_a_pool_leaves_two_with_its_name(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.100,name=pool1")
    lan.use("ip0=192.0.2.10,ip1=192.0.2.30,ip2=192.0.2.100")
    lan.modify("--pool remove:192.0.2.20-192.0.2.50")
    low, high = lan.subnets[0]["pools"]
    assert (low["start"], low["end"], low["name"]) == ("192.0.2.10", "192.0.2.19", "pool1")
    assert (high["start"], high["end"], high["name"]) == ("192.0.2.51", "192.0.2.100", "pool1")
    assert (low["map"], high["map"]) == ("X" + "." * 9, "." * 49 + "X")
    lan.modify("--add-reserved-ips 192.0.2.11-192.0.2.19")
    assert lan.use("ip=pool1") == ["192.0.2.51"]
    assert "pool1 is already the name of pool" in lan.refused("--pool add:192.0.2.30,name=pool1")
    assert "no pool of network" in lan.refused("--pool remove:192.0.2.20-192.0.2.50")


@pytest.mark.promise("networks-13", "networks-68")
@pytest.mark.parametrize(
    ("written", "last"),
    [
        ("192.0.2.10-192.0.2.19", "192.0.2.19"),
        ("start=192.0.2.10,size=10", "192.0.2.19"),
        ("start=192.0.2.10,end=192.0.2.19", "192.0.2.19"),
        ("start=192.0.2.10,size=10,end=192.0.2.19", "192.0.2.19"),
        ("192.0.2.10", "192.0.2.10"),
        ("start=192.0.2.10,size=1", "192.0.2.10"),
    ],
)
def test_a_range_has_a_first_address_and_a_last_or_a_size(lan: wires.Wire, written: str, last: str) -> None:
    lan.modify(f"--pool add:{written},name=web")
    (pool,) = lan.subnets[0]["pools"]
    size = int(last.rpartition(".")[2]) - 9
    assert (pool["start"], pool["end"], pool["size"], len(pool["map"])) == ("192.0.2.10", last, size, size)
