"""What the ``info`` commands print about NICs, as clients of Ganeti read it."""

import yaml

from gantry.cli.output import documents, object_info

UUID = "c1d2e3f4-0000-4000-8000-000000000001"
BARE: list[object] = [None, UUID, None, "aa:00:00:00:00:01", "bridged", "br0", "", None, None]
NAMED: list[object] = ["eth0", UUID, ["192.0.2.7"], "aa:00:00:00:00:01", "bridged", "br0", "12", "n1", {"name": "net1"}]


def nics(*values: list[object]) -> list[dict[str, object]]:
    printed = documents.document(object_info.instance({"name": "web1", "nics": list(values)}))
    described: list[dict[str, object]] = yaml.safe_load(printed)["NICs"]
    return described


def test_each_nic_has_all_lines_that_clients_read_also_without_a_value() -> None:
    for nic in nics(BARE, NAMED):
        assert list(nic)[1:] == ["MAC", "IP", "mode", "link", "vlan", "network", "UUID", "name"]


def test_name_and_vlan_of_a_nic_are_lines_of_their_own() -> None:
    bare, named = nics(BARE, NAMED)
    assert (bare["name"], bare["vlan"], bare["network"], bare["IP"]) == ("None", "", "None", "None")
    assert (named["name"], named["vlan"], named["network"], named["IP"]) == ("eth0", "12", "net1", ["192.0.2.7"])
