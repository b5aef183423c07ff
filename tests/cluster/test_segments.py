"""Segment ranges and networks with segments on a cluster of real daemons, from the command to the next start."""

import re
from collections.abc import Iterator
from concurrent import futures

import pytest
import yaml
from tests.cluster import lab

FILE = """
[ml2]
tenant_network_types = vlan,vxlan,gre,geneve
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:119,physnet2:300:309
[ml2_type_vxlan]
vni_ranges = 1000:1019
[ml2_type_gre]
tunnel_id_ranges = 1:20
[ml2_type_geneve]
vni_ranges = 5000:5019
"""
EXTENT = "network_type,physical_network,minimum,maximum"
DEFAULTS = [
    ["vlan", "physnet1", "100", "119"],
    ["vlan", "physnet2", "300", "309"],
    ["vxlan", "", "1000", "1019"],
    ["gre", "", "1", "20"],
    ["geneve", "", "5000", "5019"],
]


class SegmentCluster:
    """A cluster of one node, with a file of default ranges."""

    def __init__(self, cluster_lab: lab.Lab) -> None:
        self.lab = cluster_lab
        cluster_lab.init()
        self.restart(FILE)

    def restart(self, text: str) -> None:
        folder = self.lab.master / "etc"
        folder.mkdir(exist_ok=True)
        (folder / "segments.ini").write_text(text)
        self.lab.stop_master(self.lab.nodes[0])
        self.lab.start_master()

    def modify(self, *words: str) -> str:
        return self.lab.run("gnt-cluster", "modify", *words).stdout

    def range(self, command: str, words: str) -> str:
        return self.lab.run("gantry", "segment", "range", command, *words.split()).stdout

    def make(self, words: str) -> str:
        """Make a range and return its UUID."""
        return self.range("create", words).splitlines()[-1]

    def refused(self, command: str, words: str) -> str:
        return self.lab.refused("gantry", "segment", "range", command, *words.split())

    def ranges(self, fields: str = EXTENT, *, words: str = "") -> list[list[str]]:
        output = self.range("list", f"--no-headers --separator | -o {fields} {words}")
        return [line.split("|") for line in output.splitlines()]

    def network(self, name: str, words: str = "--segment next") -> str:
        """Make a network and return its segment in words."""
        self.lab.run("gnt-network", "add", *words.split(), name)
        ((kind, physical, number),) = self.lab.rows("gnt-network", "network_type,physical_network,segment", name)
        return f"{kind} {physical} {number}"

    def no_network(self, words: str) -> str:
        return self.lab.refused("gnt-network", "add", *words.split(), "refused")

    def clear(self) -> None:
        for (name,) in self.lab.rows("gnt-network", "name"):
            self.lab.run("gnt-network", "remove", name)
        for uuid, default in self.ranges("uuid,default"):
            if default == "N":
                self.range("delete", uuid)


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[SegmentCluster]:
    with lab.lab() as cluster_lab:
        yield SegmentCluster(cluster_lab)


@pytest.fixture
def segment_cluster(shared_cluster: SegmentCluster) -> Iterator[SegmentCluster]:
    shared_cluster.modify("--segment-ranges", "yes", "--segment-fallback", "default")
    yield shared_cluster
    shared_cluster.clear()


kept = pytest.mark.promise
PRIVATE = "--private --network-type vlan --physical-network physnet1"


@pytest.mark.slow
@pytest.mark.promise("segments-14", "segments-31", "segments-73", "segments-74", "segments-75", "segments-60")
def test_the_files_ranges_are_there_at_each_start_and_are_read_only(segment_cluster: SegmentCluster) -> None:
    assert segment_cluster.ranges() == DEFAULTS
    assert segment_cluster.ranges("default,shared,project") == [["Y", "Y", ""]] * 5
    uuids = [uuid for (uuid,) in segment_cluster.ranges("uuid")]
    for command, words in (("set", f"--name x {uuids[0]}"), ("delete", uuids[0])):
        assert "is a default range, which is read-only" in segment_cluster.refused(command, words)
    segment_cluster.network("used", "--type vlan")
    segment_cluster.restart(FILE.replace("physnet1:100:119,", "").replace("1:20", "1:30"))
    assert segment_cluster.ranges() == [DEFAULTS[1], DEFAULTS[2], ["gre", "", "1", "30"], DEFAULTS[4]]
    assert [uuid for (uuid,) in segment_cluster.ranges("uuid") if uuid in uuids] == [uuids[1], uuids[2], uuids[4]]
    assert segment_cluster.lab.rows("gnt-network", "segment", "used") == [["100"]]
    segment_cluster.restart(FILE + "[ml2_type_vlan]\nnetwork_vlan_ranges = physnet1:9:8\n")
    assert len(segment_cluster.ranges()) == 4
    log = (segment_cluster.lab.master / "log/master-daemon.log").read_text()
    assert len(re.findall(r"cannot read .*segments.ini.*network_vlan_ranges: the minimum 9 is above", log)) == 1
    segment_cluster.restart(FILE)
    assert segment_cluster.ranges() == DEFAULTS


@pytest.mark.promise("segments-86", "segments-87", "segments-88", "segments-89")
def test_the_feature_is_off_until_it_is_turned_on_and_then_the_file_alone_applies(
    segment_cluster: SegmentCluster,
) -> None:
    assert segment_cluster.network("mine", "--type vlan --project p1") == "vlan physnet1 100"
    segment_cluster.make(f"{PRIVATE} --project p1 --minimum 400 --maximum 409")
    assert segment_cluster.network("own", "--project p1 --segment next") == "vlan physnet1 400"
    assert "only the segment ranges of segments.ini apply now" in segment_cluster.modify("--segment-ranges", "default")
    info = yaml.safe_load(segment_cluster.lab.run("gnt-cluster", "info").stdout)["Cluster parameters"]
    assert info["segment ranges of projects"] is False
    assert "only the ranges of segments.ini apply" in segment_cluster.refused(
        "create", f"{PRIVATE} --project p --minimum 1 --maximum 2"
    )
    assert segment_cluster.network("file", "--project p1 --segment next") == "vlan physnet1 101"
    assert "update procedures that describe where ids come from" in segment_cluster.modify("--segment-ranges", "yes")
    assert segment_cluster.network("again", "--project p1 --segment next") == "vlan physnet1 401"


@pytest.mark.promise(
    "segments-2", "segments-3", "segments-5", "segments-6", "segments-10", "segments-82", "segments-85"
)
def test_a_projects_networks_get_ids_of_its_own_ranges_and_others_those_of_the_shared_ones(
    segment_cluster: SegmentCluster,
) -> None:
    segment_cluster.make(f"{PRIVATE} --project p1 --minimum 400 --maximum 400")
    segment_cluster.make(
        "--private --network-type vlan --physical-network physnet2 --project p1 --minimum 305 --maximum 305"
    )
    segment_cluster.make("--private --network-type geneve --project p1 --minimum 9 --maximum 9")
    segment_cluster.make(
        "--private --network-type vlan --physical-network physnet2 --project p2 --minimum 500 --maximum 509"
    )
    got = [segment_cluster.network(f"own{index}", "--project p1 --segment next") for index in range(3)]
    assert got == ["vlan physnet1 400", "vlan physnet2 305", "geneve - 9"]
    assert segment_cluster.network("theirs", "--project p2 --segment next") == "vlan physnet2 500"
    assert segment_cluster.network("shared", "--project p3 --segment next") == "vlan physnet1 100"
    assert segment_cluster.network("more", "--project p1 --segment next") == "vlan physnet1 101"
    segment_cluster.modify("--segment-fallback", "no")
    assert "no free segment in the ranges of project p1" in segment_cluster.no_network("--project p1 --segment next")
    assert segment_cluster.network("still", "--project p3 --segment next") == "vlan physnet1 102"


@pytest.mark.promise("segments-83")
def test_an_id_of_a_projects_range_goes_to_no_other_though_a_shared_range_has_it(
    segment_cluster: SegmentCluster,
) -> None:
    segment_cluster.make("--private --network-type gre --project p1 --minimum 1 --maximum 20")
    assert "no free gre segment" in segment_cluster.no_network("--type gre --project p2")
    assert "overlaps segment range" in segment_cluster.refused(
        "create", "--private --network-type gre --project p2 --minimum 20 --maximum 25"
    )
    assert segment_cluster.network("own", "--type gre --project p1") == "gre - 1"


@pytest.mark.promise("segments-4", "segments-11", "segments-50", "segments-51", "segments-81")
def test_every_type_has_ranges_also_of_what_the_file_does_not_name(segment_cluster: SegmentCluster) -> None:
    for words, number in (
        ("vlan --physical-network rack7", 4094),
        ("vxlan", 2**24 - 1),
        ("geneve", 2**24 - 1),
        ("gre", 2**32 - 1),
    ):
        for segment_id in (number, 2):
            segment_cluster.make(
                f"--private --project {words[:3]} --network-type {words} --minimum {segment_id} --maximum {segment_id}"
            )
    for name, expected in (
        ("vla", ["vlan rack7 2", "vlan rack7 4094"]),
        ("vxl", ["vxlan - 2", f"vxlan - {2**24 - 1}"]),
        ("gen", ["geneve - 2", f"geneve - {2**24 - 1}"]),
        ("gre", ["gre - 2", f"gre - {2**32 - 1}"]),
    ):
        assert [
            segment_cluster.network(f"{name}{index}", f"--project {name} --segment next") for index in (1, 2)
        ] == expected


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        pytest.param(
            "vlan --physical-network p --minimum 1 --maximum 4095",
            "ids of vlan are 1 to 4094",
            id="vlan",
            marks=kept("segments-25"),
        ),
        pytest.param(
            "vxlan --minimum 1 --maximum 16777216",
            "ids of vxlan are 1 to 16777215",
            id="vxlan",
            marks=kept("segments-26"),
        ),
        pytest.param(
            "geneve --minimum 1 --maximum 16777216",
            "ids of geneve are 1 to 16777215",
            id="geneve",
            marks=kept("segments-28"),
        ),
        pytest.param(
            "gre --minimum 1 --maximum 4294967296", "maximum: must be at most ", id="gre", marks=kept("segments-27")
        ),
        pytest.param(
            "gre --minimum 9 --maximum 8",
            "the minimum 9 is above the maximum 8",
            id="backwards",
            marks=kept("segments-29"),
        ),
        pytest.param("gre --minimum 0 --maximum 8", "minimum: must be at least 1", id="zero"),
    ],
)
def test_bounds_that_cannot_be_are_refused_as_wrong_input(
    segment_cluster: SegmentCluster, words: str, fault: str
) -> None:
    output = segment_cluster.refused("create", f"--network-type {words}")
    assert "wrong_input" in output
    assert fault in output


@pytest.mark.promise("segments-78", "segments-79", "segments-80")
def test_a_range_is_changed_and_removed_only_round_what_is_used_of_it(segment_cluster: SegmentCluster) -> None:
    uuid = segment_cluster.make(f"{PRIVATE} --project p1 --minimum 400 --maximum 404 lab")
    segment_cluster.network("n", "--type vlan --physical-network physnet1 --segment 402 --project p1")
    segment_cluster.range("set", "--minimum 401 --maximum 410 lab")
    segment_cluster.range("set", f"--name bench --maximum 402 {uuid}")
    assert segment_cluster.ranges("name,minimum,maximum", words=uuid) == [["bench", "401", "402"]]
    assert "is in use: network n has id 402" in segment_cluster.refused("set", "--maximum 401 bench")
    assert "is in use: network n has id 402" in segment_cluster.refused("delete", "bench")
    assert "is in use by network n" in segment_cluster.no_network(
        "--type vlan --physical-network physnet1 --segment 402"
    )
    assert segment_cluster.network("next", "--project p1 --segment next") == "vlan physnet1 401"
    for name in ("n", "next"):
        segment_cluster.lab.run("gnt-network", "remove", name)
    segment_cluster.range("delete", "bench")
    assert segment_cluster.ranges() == DEFAULTS


@pytest.mark.promise("segments-61", "segments-62", "segments-63")
def test_lists_choose_by_what_is_used_and_free_and_show_tells_both(segment_cluster: SegmentCluster) -> None:
    segment_cluster.make(f"{PRIVATE} --project p1 --minimum 400 --maximum 400 full")
    segment_cluster.make(f"{PRIVATE} --project p2 --minimum 500 --maximum 509 some")
    segment_cluster.make(f"{PRIVATE} --project p3 --minimum 600 --maximum 609 none")
    for name in ("p1", "p2"):
        segment_cluster.network(name, f"--project {name} --segment next")

    def named(words: str) -> set[str]:
        return {name for (name,) in segment_cluster.ranges("name", words=words)} - {"-", ""}

    assert named("--used") == {"full", "some"}
    assert named("--not-used") == named("--unused") == {"none"}
    assert named("--available") == {"some", "none"}
    assert named("--not-available") == named("--unavailable") == {"full"}
    content = yaml.safe_load(segment_cluster.range("show", "some"))
    (segment_range,) = content if isinstance(content, list) else [content]
    assert (segment_range["Minimum"], segment_range["Ids in use"], segment_range["Free ids"]) == (500, 1, 9)
    assert segment_range["In use, by project"] == {"500": "p2"} or segment_range["In use, by project"] == {500: "p2"}
    assert segment_range["Free"] == ["501-509"]


@pytest.mark.promise(
    *("segments-64", "segments-65", "segments-66", "segments-67", "segments-68", "segments-69"),
    *("segments-70", "segments-71"),
)
def test_ranges_are_kept_in_the_words_of_the_seed(segment_cluster: SegmentCluster) -> None:
    uuid = segment_cluster.make(
        "--shared False --network_type vlan --minimum 100 --maximum 200 --name range_a --project_id p1"
        " --physical_network physnet1"
    )
    fields = "name,shared,project,network_type,physical_network,minimum,maximum"
    assert segment_cluster.ranges(fields, words=uuid) == [["range_a", "N", "p1", "vlan", "physnet1", "100", "200"]]
    assert "has no physical network" in segment_cluster.refused(
        "create", "--shared True --network_type gre --minimum 1 --maximum 2 --physical_network physnet1"
    )
    for word in ("--network_type vlan ", "--minimum 1 ", "--maximum 2 "):
        words = "--shared True --network_type vlan --minimum 1 --maximum 2 --physical_network p ".replace(word, "")
        assert f"{word.split()[0].replace('_', '-')} is missing" in segment_cluster.refused("create", words)
    segment_cluster.range("set", f"--name range_b --minimum 200 --maximum 300 {uuid}")
    assert segment_cluster.ranges("name,minimum,maximum", words=uuid) == [["range_b", "200", "300"]]
    segment_cluster.range("delete", uuid)
    assert segment_cluster.ranges() == DEFAULTS


def test_twenty_at_once_get_each_its_own_id(segment_cluster: SegmentCluster) -> None:
    segment_cluster.modify("--segment-fallback", "no")
    segment_cluster.make("--private --network-type vxlan --project p1 --minimum 50 --maximum 61")
    with segment_cluster.lab.luxi() as luxi:
        ops = [
            [{"OP_ID": "OP_NETWORK_ADD", "network_name": f"n{index}", "project": "p1", "segmented": True}]
            for index in range(20)
        ]
        answers = luxi.value("SubmitManyJobs", ops)
        assert isinstance(answers, list)
    with futures.ThreadPoolExecutor(20) as threads:
        ended = [*threads.map(lambda answer: _status(segment_cluster, answer[1]), answers)]
    assert (ended.count("success"), ended.count("error")) == (12, 8)
    numbers = sorted(int(number) for (number,) in segment_cluster.lab.rows("gnt-network", "segment"))
    assert numbers == [*range(50, 62)]
    assert "job" not in segment_cluster.refused("delete", segment_cluster.ranges("uuid", words="--used")[0][0])


def _status(segment_cluster: SegmentCluster, job: object) -> object:
    with segment_cluster.lab.luxi() as luxi:
        return luxi.finished(job)[0]


@pytest.mark.slow
@pytest.mark.promise("segments-15", "segments-84")
def test_a_shared_range_that_is_made_is_one_of_the_shared_ones(segment_cluster: SegmentCluster) -> None:
    segment_cluster.restart(
        FILE.replace("physnet1:100:119,physnet2:300:309", "physnet1:100:100").replace("vlan,", "vlan\n#")
    )
    try:
        assert segment_cluster.network("first") == "vlan physnet1 100"
        assert "there is no free segment" in segment_cluster.no_network("--segment next")
        uuid = segment_cluster.make("--network-type vlan --physical-network physnet9 --minimum 7 --maximum 7")
        assert segment_cluster.ranges("shared", words=uuid) == [["Y"]]
        assert segment_cluster.network("second") == "vlan physnet9 7"
    finally:
        segment_cluster.restart(FILE)


def test_a_command_and_the_file_set_the_default_ranges_while_the_master_runs(segment_cluster: SegmentCluster) -> None:
    def segment(*words: str) -> str:
        return segment_cluster.lab.run("gantry", "segment", *words).stdout

    pid = segment_cluster.lab.master_pid()
    assert "set by segments.ini" in segment_cluster.lab.refused("gantry", "segment", "set", "--gre-ranges", "1:30")
    assert yaml.safe_load(segment("show"))["Set by"] == "segments.ini of the master"
    try:
        segment("set", "--force", "--vlan-ranges", "physnet1:7:7,physnet3")
        assert segment_cluster.ranges() == [["vlan", "physnet1", "7", "7"], *DEFAULTS[2:]]
        document = yaml.safe_load(segment("show"))
        assert (document["Set by"], document["Physical networks"]) == ("gantry segment set", ["physnet1", "physnet3"])
        assert document["Default ranges"][:2] == ["vlan physnet1:7:7", "vxlan 1000:1019"]
        assert segment_cluster.network("seven") == "vlan physnet1 7"
    finally:
        segment("apply")
    assert segment_cluster.ranges() == DEFAULTS
    assert segment_cluster.lab.master_pid() == pid
