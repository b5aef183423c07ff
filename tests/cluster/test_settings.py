"""The settings of a running cluster of real daemons: `gnt-cluster modify` from the command to the nodes."""

import json
from collections.abc import Iterator
from concurrent import futures

import pytest
import yaml
from tests.cluster import lab, test_refused_requests


@pytest.fixture(scope="module")
def cluster() -> Iterator[lab.Lab]:
    """Four nodes of which two are in the pool; the bridge of the defaults is on none of them."""
    with lab.lab() as four_nodes:
        four_nodes.init("-C", "2", "--defaults", "hypervisor=fake,disksize=16m,bridge=br-lab")
        for _ in range(3):
            four_nodes.add_node()
        yield four_nodes


def _modify(cluster: lab.Lab, *options: object) -> list[str]:
    """Change settings and return the lines of the job's log, without the times."""
    lines = cluster.run("gnt-cluster", "modify", *options).stdout.splitlines()
    return [line[25:] for line in lines]


def _info(cluster: lab.Lab) -> dict[str, object]:
    info: dict[str, object] = yaml.safe_load(cluster.run("gnt-cluster", "info").stdout)
    return info


def _settings(cluster: lab.Lab) -> dict[str, object]:
    with cluster.luxi() as luxi:
        settings = luxi.call("QueryClusterInfo")
    return {name: value for name, value in settings.items() if name != "mtime"}


def _stored(cluster: lab.Lab) -> dict[str, object]:
    """Return the stored settings of the cluster itself; settings that were never set are not stored."""
    stored = json.loads(cluster.run("gantry", "export-config").stdout)["cluster"]
    assert isinstance(stored, dict)
    return stored


def _roles(cluster: lab.Lab) -> str:
    return "".join(role for _, role in sorted(map(tuple, cluster.rows("gnt-node", "name,role"))))


def _holds(node: lab.Node, word: str) -> bool:
    """Return whether a node's replica of the journal has a word."""
    return any(word.encode() in path.read_bytes() for path in (node.root / "lib/journal").glob("*"))


def _keeps_nothing(node: lab.Node) -> bool:
    names = ("config.data", "journal", "queue/serial", "certs/authority.key")
    return not any((node.root / "lib" / name).exists() for name in names)


@pytest.mark.promise("cluster-82", "cluster-148")
@pytest.mark.slow
def test_the_pool_grows_and_shrinks_at_once_and_the_copies_with_it(cluster: lab.Lab) -> None:
    assert _roles(cluster) == "MCRR"
    assert all(_keeps_nothing(node) for node in cluster.nodes[2:])
    log = _modify(cluster, "-C", "4")
    assert "candidate_pool_size: 2 becomes 4" in log
    assert "node4 becomes a master candidate" in log
    assert _roles(cluster) == "MCCC"
    cluster.run("gnt-cluster", "add-tags", "after-the-growth")
    for node in cluster.nodes:
        lab.wait_until(lambda node=node: _holds(node, "after-the-growth"), f"the copy of {node.name}")  # type: ignore[misc]
        assert (node.root / "lib/certs/authority.key").exists()
    assert "node3 is no longer a master candidate" in _modify(cluster, "--candidate-pool-size", "2")
    assert _roles(cluster) == "MCRR"
    assert all(_keeps_nothing(node) for node in cluster.nodes[2:])
    cluster.run("gnt-cluster", "add-tags", "after-the-shrinking")
    lab.wait_until(lambda: _holds(cluster.nodes[1], "after-the-shrinking"), "the copy of node2")
    cluster.verified()
    _modify(cluster, "-C", "default")
    assert _settings(cluster)["candidate_pool_size"] == 10
    assert _roles(cluster) == "MCCC"
    _modify(cluster, "-C", "2")
    assert _roles(cluster) == "MCRR"


@pytest.mark.promise("cluster-85")
def test_verify_reports_a_pool_of_candidates_that_is_not_full(cluster: lab.Lab) -> None:
    _modify(cluster, "-C", "4")
    cluster.run("gnt-node", "modify", "-f", "-C", "no", "node4")
    try:
        done = cluster.run("gnt-cluster", "verify", check=False)
        assert (done.returncode, "3 master candidates, 4 are required" in done.stdout) == (1, True)
    finally:
        _modify(cluster, "-C", "2")
    assert "master candidates" not in cluster.verified()


@pytest.mark.slow
def test_changes_of_the_pool_at_the_same_time_leave_it_whole(cluster: lab.Lab) -> None:
    modify = "gnt-cluster modify -C"
    changes = [f"{modify} {size}" for size in (1, 4, 2, 3, 1, 4, 3)]
    changes += ["gnt-node modify -C no node2", "gnt-node modify -O yes node4", "gnt-node modify -C no node3"]
    with futures.ThreadPoolExecutor(len(changes)) as pool:
        # A change may be refused if no node remains that can replace a candidate.
        list(pool.map(lambda change: cluster.run(*change.split(), check=False), changes))
    expected_candidates = min(int(str(_settings(cluster)["candidate_pool_size"])), 3)
    assert sum(role in "MC" for role in _roles(cluster)) == expected_candidates
    for node, role in zip(cluster.nodes, _roles(cluster), strict=True):
        assert role in "MC" or _keeps_nothing(node), node.name
    cluster.run("gnt-node", "modify", "-O", "no", "node4")
    _modify(cluster, "-C", "1")
    _modify(cluster, "-C", "2")
    assert _roles(cluster) == "MCRR"


def test_a_dry_run_and_a_change_that_is_none_change_nothing(cluster: lab.Lab) -> None:
    before = _settings(cluster)
    planned = cluster.run("gnt-cluster", "modify", "--dry-run", "-C", "3", "-m", "aa:00:07").stdout.splitlines()
    assert planned == [
        "mac_prefix: aa:00:00 becomes aa:00:07",
        "candidate_pool_size: 2 becomes 3",
        "node3 becomes a master candidate",
    ]
    assert _modify(cluster, "-C", "2") == ["nothing changes: cluster lab.example already has these settings"]
    assert _settings(cluster) == before
    assert _roles(cluster) == "MCRR"


@pytest.mark.promise("cluster-149")
@pytest.mark.slow
def test_defaults_of_hypervisor_disk_and_bridge_hold_from_init_on_and_can_be_changed(cluster: lab.Lab) -> None:
    add = ("gnt-instance", "add", "-t", "file", "--disk", "0:mode=rw", "-o", "plain", "-n", "node1")
    cluster.run(*add, "--no-nics", "small.example")
    assert "node1 has no bridge br-lab" in cluster.refused(*add, "nic.example")
    assert "has no bridge br-other" in cluster.refused("gnt-cluster", "modify", "--defaults", "bridge=br-other")
    _modify(
        cluster, "-f", "--enabled-hypervisors", "fake,kvm", "--allow", "kvm_path=/bin/sh", "-H", "kvm:kvm_path=/bin/sh"
    )
    log = _modify(cluster, "-f", "--defaults", "hypervisor=kvm,disksize=24m,bridge=br-other")
    assert "NIC link: br-lab becomes br-other" in log
    cluster.run(*add, "--no-nics", "--no-start", "large.example")
    assert "has no bridge br-other" in cluster.refused(*add, "-H", "fake", "nic.example")
    assert cluster.rows("gnt-instance", "name,hypervisor,disk.size/0") == [
        ["large.example", "kvm", "24"],
        ["small.example", "fake", "16"],
    ]
    assert "hypervisor kvm is in use by instance large.example" in cluster.refused(
        "gnt-cluster", "modify", "--enabled-hypervisors", "fake"
    )
    cluster.run("gnt-instance", "remove", "-f", "small.example")
    cluster.run("gnt-instance", "remove", "-f", "large.example")
    _modify(cluster, "--enabled-hypervisors", "fake", "-f", "-H", "kvm:kvm_path=default")
    _modify(cluster, "-f", "--defaults", "disksize=default,bridge=default")
    assert "hvparams" not in _stored(cluster)
    assert "nicparams" not in _stored(cluster)
    assert "has no size, and the cluster has no default disk size" in cluster.refused(*add, "--no-nics", "none.example")


@pytest.mark.promise("cluster-69")
def test_each_parameter_is_kept_with_what_it_belongs_to(cluster: lab.Lab) -> None:
    add = ("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1")
    cluster.run(*add, "-B", "vcpus=2", "-H", "fake:migration_mode=non-live", "own.example")
    cluster.run("gnt-node", "modify", "--master-capable", "no", "node4")
    _modify(cluster, "--max-running-jobs", "900", "-B", "vcpus=3", "-H", "fake:migration_mode=live")
    exported = json.loads(cluster.run("gantry", "export-config").stdout)
    owner = exported["cluster"]
    (vm,) = exported["instances"].values()
    (node,) = [each for each in exported["nodes"].values() if each["name"] == "node4"]
    # the cluster's own, and its defaults for instances
    assert (owner["max_running_jobs"], owner["beparams"]["default"]["vcpus"]) == (900, 3)
    # a node's, an instance's own, its backend's, its hypervisor's
    assert node["master_capable"] is False
    assert (vm["hypervisor"], vm["disk_template"], vm["admin_state"]) == ("fake", "diskless", "up")
    assert (vm["beparams"], vm["hvparams"]) == ({"vcpus": 2}, {"migration_mode": "non-live"})
    cluster.run("gnt-instance", "remove", "-f", "own.example")
    cluster.run("gnt-node", "modify", "--master-capable", "yes", "node4")
    _modify(cluster, "--max-running-jobs", "default", "-B", "vcpus=default", "-H", "fake:migration_mode=default")


@pytest.mark.promise("cluster-71", "cluster-72", "cluster-76", "cluster-79", "cluster-150")
def test_defaults_of_parameters_reach_instances_and_stay_until_they_are_reset(cluster: lab.Lab) -> None:
    cluster.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node2", "-B", "vcpus=2", "vm.example")
    fields = "beparam/memory,beparam/vcpus,beparam/auto_balance,hvparam/migration_mode"
    assert cluster.rows("gnt-instance", fields) == [["128", "2", "Y", "live"]]
    log = _modify(cluster, "--hypervisor-defaults", "fake:migration_mode=non-live", "-B", "memory=256,vcpus=4")
    assert "hypervisor fake migration_mode: default (live) becomes non-live" in log
    # the nearest level wins, and nodes receive filled parameters
    assert cluster.rows("gnt-instance", fields) == [["256", "2", "Y", "non-live"]]
    cluster.run("gnt-instance", "reboot", "-t", "full", "vm.example")
    guest = json.loads((cluster.nodes[1].root / "run/instances/fake/vm.example").read_text())
    assert (guest["running"]["memory"], guest["running"]["vcpus"]) == (256, 2)
    ssconf = cluster.nodes[3].root / "lib/ssconf/ssconf_hvparams_fake"
    lab.wait_until(lambda: ssconf.read_text() == "migration_mode=non-live\n", "the ssconf files")
    info = _info(cluster)
    assert info["Hypervisor parameters"] == {"fake": {"migration_mode": "non-live"}}
    # a value equal to the built-in default is stored, until the word default resets it
    _modify(cluster, "-H", "fake:migration_mode=live", "-B", "vcpus=1")
    stored = _stored(cluster)
    assert stored["hvparams"] == {"fake": {"migration_mode": "live"}}
    assert stored["beparams"] == {"default": {"maxmem": 256, "minmem": 256, "vcpus": 1}}
    _modify(cluster, "-H", "fake:migration_mode=default", "-B", "memory=default,vcpus=default")
    assert not {"hvparams", "beparams"} & set(_stored(cluster))
    assert cluster.rows("gnt-instance", fields) == [["128", "2", "Y", "live"]]
    cluster.run("gnt-instance", "remove", "-f", "vm.example")


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ("-H fake:migration_mod=live", 1, "did you mean migration_mode?"),
        ("-B vcpu=2", 1, "unknown backend parameter vcpu; did you mean vcpus?"),
        ("-N lnk=br0", 1, "did you mean link?"),
        ("-H fale:x=y", 1, "unknown hypervisor fale; did you mean fake?"),
        ("--enabled-hypervisors lxc", 1, "unknown hypervisor lxc; known names:"),
        ("--defaults hypervisor=kvm", 1, "hypervisor kvm is not enabled"),
        ("-H fake:migration_mode=dead", 1, "'dead' is not one of live, non-live"),
        ("-B vcpus=many", 1, "'many' is not an integer"),
        ("-B vcpus=0", 1, "is below the minimum 1"),
        ("-B memory=99999999999999", 1, "is above"),
        ("-B minmem=4g", 1, "above maxmem"),
        ("-C 0", 1, "0 is below the minimum 1"),
        ("-C -1", 1, "'-1' is not a number"),
        ("-C 99999999", 1, "the number is above the maximum 1000"),
        ("--max-running-jobs 0", 1, "0 is below the minimum 1"),
        ("-m zz:00:00", 1, "MAC prefix zz:00:00 is not valid"),
        ("-m 01:00:00", 1, "multicast"),
        ("--network-thresholds 90,80", 1, "network thresholds 90,80 are invalid"),
        ("--enabled-disk-templates drbd8", 1, "unknown disk template drbd8"),
        ("", 1, "no change of the cluster was requested"),
        ("--colour red", 2, "unrecognized arguments"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_changes(
    cluster: lab.Lab, options: str, code: int, complaint: str
) -> None:
    before = _settings(cluster)
    with test_refused_requests.unchanged(cluster):
        refusal = cluster.refused("gnt-cluster", "modify", *options.split(), code=code)
    assert complaint in refusal
    assert len(refusal.splitlines()[-1]) < 700
    assert _settings(cluster) == before


def test_info_shows_every_setting(cluster: lab.Lab) -> None:
    _modify(cluster, "--max-running-jobs", "500", "--network-thresholds", "70,90", "--master-netdev", "br9")
    parameters = _info(cluster)["Cluster parameters"]
    assert isinstance(parameters, dict)
    assert parameters["candidate pool size"] == 2
    assert parameters["maximal number of jobs running simultaneously"] == 500
    assert parameters["network thresholds"] == "warning at 70 %, error at 90 %"
    assert parameters["master netdev"] == "br9"
    _modify(cluster, "--max-running-jobs", "default", "--network-thresholds", "default", "--master-netdev", "default")


def test_a_node_group_has_tags_and_tags_are_found_everywhere(cluster: lab.Lab) -> None:
    cluster.run("gnt-node", "add-tags", "node2", "rack:7")
    with cluster.luxi() as luxi:
        op = {"OP_ID": "OP_TAGS_SET", "kind": "nodegroup", "name": "default", "tags": ["rack:all"]}
        assert luxi.finished(luxi.value("SubmitJob", [op]))[0] == "success"
        assert luxi.value("QueryTags", "nodegroup", "default") == ["rack:all"]
    matches = cluster.run("gnt-cluster", "search-tags", "^rack:").stdout
    assert matches == "/nodegroup/default rack:all\n/nodes/node2 rack:7\n"
    assert cluster.run("gnt-cluster", "search-tags", "nowhere", check=False).returncode == 1
    assert "is not a regular expression" in cluster.refused("gnt-cluster", "search-tags", "(")


@pytest.mark.slow
def test_a_node_that_gave_the_flag_up_may_be_chosen_again(cluster: lab.Lab) -> None:
    assert _roles(cluster) == "MCRR"
    output = cluster.run("gnt-node", "modify", "-C", "no", "node2").stdout
    assert "node2 may become a candidate again if the pool lacks one" in output
    assert _roles(cluster) == "MRCR"
    _modify(cluster, "-C", "3")
    assert _roles(cluster) == "MCCR"
    cluster.run("gnt-node", "modify", "--master-capable", "no", "node2")
    assert _roles(cluster) == "MRCC"
    cluster.run("gnt-node", "modify", "--master-capable", "yes", "node2")
    _modify(cluster, "-C", "2")
    assert _roles(cluster) == "MRCR"
    _modify(cluster, "-C", "1")
    _modify(cluster, "-C", "2")
    assert _roles(cluster) == "MCRR"
