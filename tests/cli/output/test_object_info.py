"""What the ``info`` commands print about NICs, as clients of Ganeti read it, and about the cluster."""

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


def test_what_the_cluster_sets_is_before_the_defaults() -> None:
    filled = {"vcpus": 2, "maxmem": 256, "auto_balance": True}
    record = {"beparams": {"default": filled}, "own_parameters": {"beparams": {"default": {"vcpus": 2}}}}
    printed = documents.document(object_info.cluster(record))
    expected = "    vcpus: 2\n    auto_balance: default (True)\n    maxmem: default (256)\n"
    assert f"Default instance parameters:\n  default:\n{expected}" in printed


def test_settings_of_the_cluster_are_in_words() -> None:
    record = {
        "replication": "majority", "stray_guests": "stop", "ipam_hold_time": 60, "network_thresholds": [70, 90],
        "default_disk_size": 0, "tenant_network_types": [], "segment_ranges": True, "enabled_disk_templates": ["file"],
    }  # fmt: skip
    assert object_info.cluster(record)["Cluster parameters"] == {
        "replication of changes": "majority (a change needs more than half of the master candidates)",
        "stray guests": "stop (they are stopped)",
        "hold time of addresses": "60 s",
        "network thresholds": "warning at 70 %, error at 90 %",
        "default disk size": "none",
        "segment ranges of projects": "yes",
        "order of network types": "all types",
        "enabled disk templates": "file",
    }
