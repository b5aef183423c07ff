"""``gnt-cluster modify``: the options become one opcode."""

import pytest
from tests.cli.conftest import Gnt, Master

MODIFY = "gnt-cluster modify "


def submitted_settings(master: Master) -> dict[str, object]:
    (op,) = master.ops
    assert op.pop("OP_ID") == "OP_CLUSTER_SET_PARAMS"
    op.pop("reason")
    return op


@pytest.mark.parametrize(
    ("options", "op"),
    [
        ("-C 3", {"candidate_pool_size": 3}),
        ("--candidate-pool-size=default", {"candidate_pool_size": "default"}),
        ("-H kvm:accel=tcg,no_acpi", {"hvparams": {"kvm": {"accel": "tcg", "acpi": False}}}),
        (
            "-H kvm:accel=tcg -H fake:migration_mode=default -H kvm:-acpi",
            {"hvparams": {"kvm": {"accel": "tcg", "acpi": "default"}, "fake": {"migration_mode": "default"}}},
        ),
        ("-B memory=1g,vcpus=default", {"beparams": {"memory": 1024, "vcpus": "default"}}),
        ("-N mode=routed,link=100", {"nicparams": {"mode": "routed", "link": "100"}}),
        ("--node-parameters oob=x", {"ndparams": {"oob": "x"}}),
        ("-m aa:00:05 --master-netdev br0", {"mac_prefix": "aa:00:05", "master_netdev": "br0"}),
        ("--enabled-hypervisors fake,kvm", {"enabled_hypervisors": ["fake", "kvm"]}),
        ("--enabled-disk-templates diskless", {"enabled_disk_templates": ["diskless"]}),
        ("--ipam-hold-time 1h", {"ipam_hold_time": 3600}),
        ("--network-thresholds 70,90", {"network_thresholds": [70, 90]}),
        ("--network-thresholds default", {"network_thresholds": "default"}),
        (
            "--journal-retention 30d,4G --archive-retention default",
            {"journal_retention": "30d,4G", "archive_retention": "default"},
        ),
        ("--stray-guests stop", {"stray_guests": "stop"}),
        (
            "--allow images=/srv/cd --allow 'kvm_extra=-smbios type=1,serial=*' --disallow images=/boot",
            {
                "allowed": [
                    ["add", "images", "/srv/cd"],
                    ["add", "kvm_extra", "-smbios type=1,serial=*"],
                    ["remove", "images", "/boot"],
                ]
            },
        ),
        ("--max-running-jobs 20 -f", {"max_running_jobs": 20, "force": True}),
        ("--dry-run --priority low -C 1", {"candidate_pool_size": 1, "dry_run": True, "priority": 10}),
    ],
)
def test_options_become_settings(gnt: Gnt, master: Master, options: str, op: dict[str, object]) -> None:
    assert gnt(MODIFY + options).code == 0
    assert submitted_settings(master) == op


@pytest.mark.parametrize(
    ("options", "op"),
    [
        ("--hypervisor-defaults kvm:accel=tcg", {"hvparams": {"kvm": {"accel": "tcg"}}}),
        ("--defaults hypervisor=kvm", {"default_hypervisor": "kvm"}),
        ("--defaults disksize=10g", {"default_disk_size": 10240}),
        ("--defaults disksize=512", {"default_disk_size": 512}),
        ("--defaults disksize=default", {"default_disk_size": "default"}),
        ("--defaults bridge=br5", {"nicparams": {"mode": "bridged", "link": "br5"}}),
        ("--defaults bridge=default", {"nicparams": {"mode": "default", "link": "default"}}),
        (
            "--defaults hypervisor=fake,disksize=20M,bridge=br5 -N vlan=",
            {
                "default_hypervisor": "fake",
                "default_disk_size": 20,
                "nicparams": {"mode": "bridged", "link": "br5", "vlan": ""},
            },
        ),
    ],
)
def test_the_seeds_spellings_mean_the_same(gnt: Gnt, master: Master, options: str, op: dict[str, object]) -> None:
    assert gnt(MODIFY + options).code == 0
    assert submitted_settings(master) == op


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("-C many", "'many' is not a number"),
        ("-C -1", "'-1' is not a number"),
        ("-H accel=tcg", "-H needs a name before the colon, as in kvm:accel=tcg"),
        ("--network-thresholds 70", "'70' is not two percentages"),
        ("--defaults colour=red", "--defaults: unknown key colour; valid keys: hypervisor, disksize, bridge"),
        ("--defaults bridge", "--defaults: bridge has no value"),
        ("--defaults disksize=0", "'0' is not a size"),
        ("--defaults bridge=br5 -N link=br6", "-N and --defaults bridge= both set"),
        ("--defaults bridge=br5 -N mode=routed", "-N and --defaults bridge= both set"),
    ],
)
def test_what_is_not_understood_is_one_line_and_no_job(gnt: Gnt, master: Master, options: str, complaint: str) -> None:
    ran = gnt(MODIFY + options)
    assert (ran.code, ran.out) == (1, "")
    assert complaint in ran.err
    assert not master.ops


def test_an_unknown_option_is_a_usage_error(gnt: Gnt, master: Master) -> None:
    assert gnt(MODIFY + "--colour red").code == 2
    assert gnt(MODIFY + "web1").code == 2
    assert not master.ops


def test_defaults_of_an_operating_system_are_set_by_its_name(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-os modify -O mirror=near,-proxy debian").code == 0
    assert submitted_settings(master) == {"osparams": {"debian": {"mirror": "near", "proxy": "default"}}}
