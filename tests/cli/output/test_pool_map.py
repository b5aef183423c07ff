import itertools

import pytest
from tests.cli import networks

from gantry.cli.output import documents, network_view, pool_map


def numbers(*addresses: str) -> list[int]:
    return [int(networks.Ip(address)) for address in addresses]


def drawn(
    pool: network_view.Pool, subnet: network_view.Subnet, *used: str, canvas: pool_map.Canvas | None = None
) -> list[str]:
    lines = pool_map.draw(pool, subnet, numbers(*used), canvas=canvas or pool_map.Canvas())
    return [line for line in lines if " free, " not in line and not line.startswith("pool")]


LAN = networks.subnet("10.0.0.0/24", gateway="10.0.0.1", external=["10.0.0.10-10.0.0.12"])


def test_each_address_has_the_mark_of_what_holds_it() -> None:
    whole = networks.pool("10.0.0.0/24")
    rows = drawn(whole, LAN, "10.0.0.3", "10.0.0.4", "10.0.0.12")
    assert rows == [
        "  10.0.0.0    NG.XX.....EEB" + "." * 51,
        "  10.0.0.64   " + "." * 64,
        "  10.0.0.128  " + "." * 64,
        "  10.0.0.192  " + "." * 63 + "N",
    ]


def test_a_heading_tells_how_full_the_pool_is() -> None:
    pool = networks.pool("10.0.0.8-10.0.0.15", "web", free=5, utilization=37.5)
    (heading, row) = pool_map.draw(pool, LAN, numbers(), canvas=pool_map.Canvas())
    assert heading == "pool web 10.0.0.8-10.0.0.15 of subnet 10.0.0.0/24: 8 addresses, 5 free, 37.5 % in use"
    assert row == "  10.0.0.8   ..EEE..."
    title, counts, _ = pool_map.draw(pool, LAN, numbers(), canvas=pool_map.Canvas(80))
    assert (title, counts) == (heading.partition(": ")[0] + ":", "  8 addresses, 5 free, 37.5 % in use")


def test_what_the_master_refuses_without_a_reason_seen_here_is_held_back() -> None:
    assert drawn(networks.pool("10.0.0.2-10.0.0.5", refused="X.X."), LAN, "10.0.0.2") == ["  10.0.0.2  X.H."]


def test_the_ends_of_the_smallest_subnets_are_addresses_like_others() -> None:
    assert drawn(networks.pool("10.0.0.0/31"), networks.subnet("10.0.0.0/31")) == ["  10.0.0.0  .."]
    assert drawn(networks.pool("2001:db8::/127"), networks.subnet("2001:db8::/127")) == ["  2001:db8::   .."]


@pytest.mark.parametrize(("width", "length"), [(0, 64), (80, 64), (77, 32), (30, 16), (10, 8)])
def test_rows_are_as_long_as_the_terminal_has_room_for(width: int, length: int) -> None:
    rows = drawn(networks.pool("10.0.0.0/24"), LAN, canvas=pool_map.Canvas(width))
    assert {len(row.split()[1]) for row in rows} == {length}
    assert len(rows) == 256 // length


def test_a_pool_above_the_limit_is_shown_as_runs() -> None:
    net = networks.subnet("10.8.0.0/16", external=["10.8.1.0-10.8.1.255"])
    pool = networks.pool("10.8.0.0-10.8.31.255")
    assert drawn(pool, net, "10.8.0.1", "10.8.0.2", "10.8.2.9") == [
        "  10.8.0.0                  1  N end of the subnet",
        "  10.8.0.1-10.8.0.2         2  X in use",
        "  10.8.0.3-10.8.0.255     253  . free",
        "  10.8.1.0-10.8.1.255     256  E reserved externally",
        "  10.8.2.0-10.8.2.8         9  . free",
        "  10.8.2.9                  1  X in use",
        "  10.8.2.10-10.8.31.255  7670  . free",
    ]


def test_the_largest_pool_takes_no_longer_than_what_is_in_it() -> None:
    network_run, free_run = drawn(networks.pool("2001:db8::/64"), networks.subnet("2001:db8::/64"))
    assert network_run.split() == ["2001:db8::", "1", "N", "end", "of", "the", "subnet"]
    assert free_run.split() == ["2001:db8::1-2001:db8::ffff:ffff:ffff:ffff", str(2**64 - 1), ".", "free"]


def test_runs_and_marks_say_the_same() -> None:
    pool = networks.pool("10.0.0.0/24", refused="X" * 20 + "." * 236)
    used = numbers("10.0.0.5", "10.0.0.6", "10.0.0.11", "10.0.0.255", "10.9.9.9")
    runs = list(pool_map.runs(pool, LAN, used))
    assert runs[0] == pool_map.Run(pool.range.first, pool.range.first, "N")
    assert all(after.first == before.last + 1 for before, after in itertools.pairwise(runs))
    assert runs[-1].last == pool.range.last
    assert all(after.mark != before.mark for before, after in itertools.pairwise(runs))


def test_colours_are_put_around_marks_only_where_they_are_wanted() -> None:
    pool = networks.pool("10.0.0.2-10.0.0.5")
    assert drawn(pool, LAN, "10.0.0.3", "10.0.0.4", canvas=pool_map.Canvas(80, colours=True)) == [
        "  10.0.0.2  .\x1b[31mXX\x1b[0m."
    ]
    (line,) = pool_map.legend(pool_map.Canvas())
    assert "\x1b" not in line


def test_the_legend_is_not_wider_than_the_terminal() -> None:
    (whole,) = pool_map.legend(pool_map.Canvas())
    for width in (80, 40):
        lines = list(pool_map.legend(pool_map.Canvas(width)))
        assert max(map(len, lines)) <= width
        assert "  ".join(lines) == whole


def test_addresses_in_quarantine_are_listed_with_their_last_owner_and_the_end() -> None:
    quarantine = [
        network_view.Quarantine(networks.Ip(address), "instance f9", 1_700_000_000.0)
        for address in ("10.0.0.3", "10.0.0.9", "2001:db8::3")
    ]
    pool = networks.pool("10.0.0.2-10.0.0.5", refused=".X..")
    _, row, *lines = pool_map.draw(pool, LAN, [], quarantine=quarantine, canvas=pool_map.Canvas())
    assert row == "  10.0.0.2  .H.."
    assert lines == [f"  10.0.0.3 quarantined until {documents.clock(1_700_000_000.0)}, was instance f9"]


def test_a_long_list_of_addresses_in_quarantine_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_map, "QUARANTINED", 2)
    quarantine = [network_view.Quarantine(networks.Ip(f"10.0.0.{n}"), "port p", 1.0) for n in range(2, 7)]
    pool = networks.pool("10.0.0.0/28")
    lines = list(pool_map.draw(pool, LAN, [], quarantine=quarantine, canvas=pool_map.Canvas()))
    assert lines[-1] == "  and 3 more in quarantine: gnt-network list -o quarantine"
    assert len(lines) == 5
