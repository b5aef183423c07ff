"""What ``gnt-cluster info`` prints."""

from gantry.cli.commands import cluster_info
from gantry.cli.output import documents


def test_what_the_cluster_sets_is_before_the_defaults() -> None:
    filled = {"vcpus": 2, "maxmem": 256, "auto_balance": True}
    record = {"beparams": {"default": filled}, "own_parameters": {"beparams": {"default": {"vcpus": 2}}}}
    printed = documents.document(cluster_info.document(record))
    expected = "    vcpus: 2\n    auto_balance: default (True)\n    maxmem: default (256)\n"
    assert f"Default instance parameters:\n  default:\n{expected}" in printed


def test_settings_of_the_cluster_are_in_words() -> None:
    record = {
        "replication": "majority", "stray_guests": "stop", "ipam_hold_time": 60, "network_thresholds": [70, 90],
        "default_disk_size": 0, "tenant_network_types": [], "segment_ranges": True, "enabled_disk_templates": ["file"],
    }  # fmt: skip
    assert cluster_info.document(record)["Cluster parameters"] == {
        "replication of changes": "majority (a change needs more than half of the master candidates)",
        "stray guests": "stop (they are stopped)",
        "hold time of addresses": "60 s",
        "network thresholds": "warning at 70 %, error at 90 %",
        "default disk size": "none",
        "segment ranges of projects": "yes",
        "order of network types": "all types",
        "enabled disk templates": "file",
    }
