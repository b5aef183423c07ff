"""DRBD as it is, between two kernels, through the node daemon's calls."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from tests.real.nodes import lab, storage
from tests.real.nodes.lab import Lab, Node
from tests.real.nodes.storage import OWNER, checksum, hold, mirror, release, scribble, state

from gantry import errors
from gantry.rpc import calls

pytestmark = lab.NEEDS


class Pair:
    """A mirrored disk on both nodes of a lab; ``until`` waits for a state of it."""

    def __init__(self, nodes: Lab, minor: int) -> None:
        self.nodes = nodes
        self.minor = minor
        self.one, self.two = nodes.nodes
        self.first, self.second = mirror(minor, self.one, self.two), mirror(minor, self.two, self.one)
        self.path = f"/dev/drbd{minor}"

    def disk(self, node: Node) -> calls.Disk:
        return self.first if node is self.one else self.second

    def state(self, node: Node) -> calls.DiskState:
        return state(self.nodes, node, self.disk(node))

    def until(self, node: Node, is_reached: Callable[[calls.DiskState], bool], what: str) -> calls.DiskState:
        def reached() -> calls.DiskState | None:
            disk_state = self.state(node)
            return disk_state if is_reached(disk_state) else None

        return lab.until(reached, lambda: f"{what}: {self.state(node)}")

    def synced(self, node: Node) -> None:
        self.until(node, lambda disk_state: not disk_state.degraded, f"drbd{self.minor} on {node.name} is not in sync")

    def both(self, make: Callable[[calls.Disk], calls.Call[object]]) -> None:
        for node in (self.one, self.two):
            self.nodes.call(node, make(self.disk(node)))

    def assemble(self) -> None:
        self.both(lambda disk: calls.BlockdevAssemble(disk=disk, primary=False))

    def open(self, node: Node, *, force: bool = False) -> None:
        self.nodes.call(node, calls.BlockdevOpen(disk=self.disk(node), force=force))

    def close(self, node: Node) -> None:
        self.nodes.call(node, calls.BlockdevClose(disk=self.disk(node)))

    def make(self) -> None:
        """Make it on both nodes, the first one's data the right ones."""
        self.both(lambda disk: calls.BlockdevCreate(disk=disk, owner=OWNER))
        self.assemble()
        self.open(self.one, force=True)
        self.synced(self.one)

    def remove(self) -> None:
        """Remove it from both nodes, and see that nothing is left."""
        self.both(lambda disk: calls.BlockdevRemove(disk=disk, owner=OWNER))
        for node in (self.one, self.two):
            assert f"m{self.minor}." not in node.sh("lvs --noheadings -o lv_name"), "volumes are left"
            assert f" {self.minor}: cs:" not in node.sh("cat /proc/drbd"), "the minor is left"

    def settle(self) -> None:
        """Bring it back to where a test begins: in sync, the first node primary."""
        self.assemble()
        self.both(lambda disk: calls.DrbdAttachNet(disk=disk))
        self.close(self.two)
        self.open(self.one)
        self.synced(self.one)


@contextlib.contextmanager
def pair(nodes: Lab, minor: int) -> Iterator[Pair]:
    new_pair = Pair(nodes, minor)
    new_pair.make()
    yield new_pair
    new_pair.remove()


@pytest.fixture(scope="module")
def shared(running: Lab) -> Iterator[Pair]:
    new_pair = Pair(running, 1)
    with running.entered():
        new_pair.make()
    yield new_pair
    with running.entered():
        new_pair.remove()


@pytest.fixture
def disk(shared: Pair, nodes: Lab) -> Pair:
    shared.settle()
    return shared


def test_what_one_node_writes_the_other_has(nodes: Lab, disk: Pair) -> None:
    for _ in range(2):
        disk.assemble()
    disk_state = disk.state(disk.one)
    assert (disk_state.path, disk_state.size, disk_state.active, disk_state.role) == ("/dev/drbd1", 16, True, "primary")
    assert (disk_state.connection, disk_state.local, disk_state.peer, disk_state.problem) == (
        "Connected",
        "UpToDate",
        "UpToDate",
        "",
    )
    scribble(disk.one, disk.path, megabytes=16)
    before = checksum(disk.one, disk.path)
    for _ in range(2):
        disk.close(disk.one)
    for _ in range(2):
        disk.open(disk.two)
    assert checksum(disk.two, disk.path) == before
    assert (disk.state(disk.one).role, disk.state(disk.two).role) == ("secondary", "primary")
    disk.both(lambda each: calls.BlockdevShutdown(disk=each))
    idle = disk.state(disk.two)
    assert (idle.active, idle.size) == (False, 16)
    disk.assemble()
    disk.nodes.call(disk.two, calls.BlockdevAssemble(disk=disk.second, primary=True))
    assert checksum(disk.two, disk.path) == before


def test_making_a_mirrored_disk_again_keeps_its_data(nodes: Lab, disk: Pair) -> None:
    scribble(disk.one, disk.path, megabytes=16)
    before = checksum(disk.one, disk.path)
    disk.both(lambda each: calls.BlockdevCreate(disk=each, owner=OWNER))
    disk.both(lambda each: calls.BlockdevShutdown(disk=each))
    disk.both(lambda each: calls.BlockdevCreate(disk=each, owner=OWNER))
    disk.assemble()
    disk.until(disk.one, lambda disk_state: disk_state.connection == "Connected", "the connection")
    disk.open(disk.one)
    assert checksum(disk.one, disk.path) == before


def test_a_disk_in_use_is_neither_closed_nor_taken_down(nodes: Lab, disk: Pair) -> None:
    hold(disk.one, disk.path)
    with pytest.raises(
        errors.WrongStateError, match=r"drbd1 on node node1 cannot become secondary.*stop the program that uses"
    ):
        disk.close(disk.one)
    with pytest.raises(errors.WrongStateError, match="drbd1 on node node1 cannot be shut down"):
        nodes.call(disk.one, calls.BlockdevRemove(disk=disk.first, owner=OWNER))
    assert disk.state(disk.one).connection == "Connected"
    release(disk.one)


@pytest.mark.promise("cluster-105")
def test_a_peer_with_another_secret_is_not_let_in(nodes: Lab, disk: Pair) -> None:
    wrong = mirror(1, disk.two, disk.one, secret="another-secret")
    disk.both(lambda each: calls.DrbdDisconnectNet(disk=each))
    nodes.call(disk.one, calls.DrbdAttachNet(disk=disk.first))
    nodes.call(disk.two, calls.DrbdAttachNet(disk=wrong))
    disk_state = disk.until(
        disk.one, lambda disk_state: "secret" in disk_state.problem, "the wrong secret is not noticed"
    )
    assert "drbd1 on node node1 is not connected to its peer: authentication failed" in disk_state.problem
    assert disk_state.connection == "StandAlone"
    disk.assemble()
    disk.synced(disk.one)


def test_a_cut_cable_is_noticed_and_what_was_missed_is_made_up_for(nodes: Lab, disk: Pair) -> None:
    nodes.cable(disk.two, plugged=False)
    alone = disk.until(disk.one, lambda disk_state: disk_state.connection != "Connected", "the cut")
    assert alone.degraded
    scribble(disk.one, disk.path, megabytes=4)
    nodes.cable(disk.two, plugged=True)
    disk.synced(disk.one)
    before = checksum(disk.one, disk.path)
    disk.close(disk.one)
    disk.open(disk.two)
    assert checksum(disk.two, disk.path) == before


def test_two_that_both_wrote_alone_say_so_and_one_gives_in(nodes: Lab, disk: Pair) -> None:
    disk.both(lambda each: calls.DrbdDisconnectNet(disk=each))
    scribble(disk.one, disk.path, megabytes=1)
    disk.open(disk.two)
    scribble(disk.two, disk.path, megabytes=1, offset=2)
    disk.close(disk.two)
    disk.both(lambda each: calls.DrbdAttachNet(disk=each))
    # DRBD promises StandAlone for at least one of them: the other may still wait for a peer that has left by then.
    noticed = lab.until(
        lambda: [state for state in map(disk.state, nodes.nodes) if "split brain" in state.problem],
        lambda: f"neither node notices the split brain: {[disk.state(node) for node in nodes.nodes]}",
    )
    assert {state.connection for state in noticed} == {"StandAlone"}
    before = checksum(disk.one, disk.path)
    nodes.call(disk.one, calls.DrbdAttachNet(disk=disk.first))
    nodes.call(disk.two, calls.DrbdAttachNet(disk=disk.second, discard=True))
    disk.synced(disk.one)
    disk.close(disk.one)
    disk.open(disk.two)
    assert checksum(disk.two, disk.path) == before


def test_both_are_primary_for_a_migration_and_only_then(nodes: Lab, disk: Pair) -> None:
    with pytest.raises(errors.WrongStateError, match="drbd1 on node node2 cannot become primary"):
        disk.open(disk.two)
    for _ in range(2):
        disk.both(lambda each: calls.DrbdAttachNet(disk=each, multimaster=True))
    disk.open(disk.two)
    assert [disk.state(node).role for node in nodes.nodes] == ["primary", "primary"]
    disk.close(disk.one)
    disk.both(lambda each: calls.DrbdAttachNet(disk=each, multimaster=False))
    with pytest.raises(errors.WrongStateError, match="cannot become primary"):
        disk.open(disk.one)
    disk.synced(disk.two)


@pytest.mark.promise("cluster-101")
def test_somebody_elses_device_in_the_way_is_taken_down_unless_it_is_in_use(nodes: Lab) -> None:
    node = nodes.nodes[0]
    disk = mirror(8, node, None)
    nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    node.sh(
        f"lvcreate -qq -y -n foreign -L 8M {storage.GROUP}; lvcreate -qq -y -n foreign_meta -L 4M {storage.GROUP};"
        "drbdsetup new-resource foreign; drbdsetup new-minor foreign 8 0;"
        f"drbdmeta --force 8 v08 /dev/{storage.GROUP}/foreign_meta flex-external create-md;"
        f"drbdsetup attach 8 /dev/{storage.GROUP}/foreign /dev/{storage.GROUP}/foreign_meta flexible;"
        "drbdsetup primary 8 --force"
    )
    scribble(node, "/dev/drbd8", megabytes=8)
    before = checksum(node, "/dev/drbd8")
    assert "drbd8 on node node1 is in use by another resource" in state(nodes, node, disk).problem
    hold(node, "/dev/drbd8")
    with pytest.raises(errors.WrongStateError, match="drbd8 on node node1 cannot be shut down"):
        nodes.call(node, calls.BlockdevAssemble(disk=disk, primary=False))
    assert checksum(node, "/dev/drbd8") == before
    release(node)
    nodes.call(node, calls.BlockdevAssemble(disk=disk, primary=False))
    disk_state = state(nodes, node, disk)
    assert (disk_state.size, disk_state.problem) == (16, "")
    assert "foreign" not in node.sh("drbdsetup show all")
    assert checksum(node, f"/dev/{storage.GROUP}/foreign") == before
    nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))
    node.sh(f"lvremove -qq -y {storage.GROUP}/foreign {storage.GROUP}/foreign_meta")


def test_a_device_with_another_peer_is_connected_to_its_new_one(nodes: Lab, disk: Pair) -> None:
    stranger = mirror(1, disk.one, Node(77, disk.one.folder))
    nodes.call(disk.one, calls.BlockdevAssemble(disk=stranger, primary=True))
    assert state(nodes, disk.one, stranger).connection in ("WFConnection", "Unconnected")
    disk.assemble()
    disk.synced(disk.one)


def test_a_disk_grows_on_both_nodes(nodes: Lab) -> None:
    with pair(nodes, 10) as disk:
        scribble(disk.one, disk.path, megabytes=16)
        before = checksum(disk.one, disk.path)
        with pytest.raises(errors.BlockDeviceError, match="grow the volumes under it on both nodes first"):
            nodes.call(disk.one, calls.BlockdevGrow(disk=disk.first, size=24))
        for _ in range(2):
            disk.both(lambda each: calls.BlockdevGrow(disk=each, size=24, backing=True))
            nodes.call(disk.one, calls.BlockdevGrow(disk=disk.first, size=24))
        assert disk.state(disk.one).size == 24
        assert disk.one.sh(f"head -c {16 << 20} {disk.path} | md5sum").split()[0] == before
        disk.synced(disk.one)


def test_a_new_local_disk_gets_its_data_from_the_peer_at_the_rate_that_is_set(nodes: Lab) -> None:
    with pair(nodes, 11) as disk:
        scribble(disk.one, disk.path, megabytes=16)
        before = checksum(disk.one, disk.path)
        for _ in range(2):
            nodes.call(disk.two, calls.BlockdevRemovechildren(disk=disk.second))
        gone = disk.until(disk.two, lambda disk_state: disk_state.local == "Diskless", "the disk is not detached")
        assert "drbd11 on node node2 has no local disk" in gone.problem
        for child in disk.second.children:
            nodes.call(disk.two, calls.BlockdevRemove(disk=child, owner=OWNER))

        disk.second = mirror(11, disk.two, disk.one, suffix="new", resync_rate=500)
        for child in disk.second.children:
            nodes.call(disk.two, calls.BlockdevCreate(disk=child, owner=OWNER))
        for _ in range(2):
            nodes.call(disk.two, calls.BlockdevAddchildren(disk=disk.second))
        slow = disk.until(disk.two, lambda disk_state: disk_state.sync_percent is not None, "it does not synchronise")
        assert (slow.local, slow.degraded) == ("Inconsistent", True)
        nodes.call(disk.two, calls.BlockdevPauseResumeSync(disk=disk.second, pause=True))
        disk.until(disk.two, lambda disk_state: disk_state.connection.startswith("PausedSync"), "it continues")
        nodes.call(disk.two, calls.BlockdevPauseResumeSync(disk=disk.second, pause=False))
        disk.second = mirror(11, disk.two, disk.one, suffix="new")
        nodes.call(disk.two, calls.BlockdevAssemble(disk=disk.second, primary=False))
        disk.synced(disk.two)
        disk.close(disk.one)
        disk.open(disk.two)
        assert checksum(disk.two, disk.path) == before


def test_a_killed_peer_is_done_without_and_caught_up_with(nodes: Lab, disk: Pair) -> None:
    scribble(disk.one, disk.path, megabytes=8)
    disk.two.kill()
    disk.until(disk.one, lambda disk_state: disk_state.connection != "Connected", "the peer's death is not noticed")
    scribble(disk.one, disk.path, megabytes=8, offset=4)
    before = checksum(disk.one, disk.path)
    disk.two.reboot()
    disk.assemble()
    disk.synced(disk.one)
    disk.close(disk.one)
    disk.open(disk.two)
    assert checksum(disk.two, disk.path) == before


def test_a_killed_primary_is_replaced_by_its_peer_and_comes_back_as_the_other(nodes: Lab, disk: Pair) -> None:
    scribble(disk.one, disk.path, megabytes=8)
    before = checksum(disk.one, disk.path)
    disk.one.kill()
    disk.until(disk.two, lambda disk_state: disk_state.connection != "Connected", "the peer's death is not noticed")
    disk.open(disk.two)
    assert checksum(disk.two, disk.path) == before
    scribble(disk.two, disk.path, megabytes=4, offset=2)
    after = checksum(disk.two, disk.path)
    disk.one.reboot()
    disk.assemble()
    disk.synced(disk.two)
    disk.close(disk.two)
    disk.open(disk.one)
    assert checksum(disk.one, disk.path) == after


def test_a_primary_of_mode_ro_cannot_be_written_to(nodes: Lab) -> None:
    node = nodes.nodes[0]
    disk = mirror(13, node, None, mode="ro")
    nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    nodes.call(node, calls.BlockdevAssemble(disk=disk, primary=False))
    nodes.call(node, calls.BlockdevOpen(disk=disk, force=True))
    write = ["dd", "if=/dev/zero", "of=/dev/drbd13", "bs=4k", "count=1", "conv=notrunc", "oflag=direct"]
    assert node.run(*write)[0] != 0
    nodes.call(node, calls.BlockdevSetMode(disk=mirror(13, node, None)))
    assert node.run(*write)[0] == 0
    nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))


def test_what_cannot_be_made_leaves_no_volume(nodes: Lab) -> None:
    node = nodes.nodes[0]
    disk = mirror(14, node, None, size=100000)
    with pytest.raises(
        errors.NoRoomError, match=r"disk of 100000 MiB does not fit, \d+ MiB are free in xenvg on node node1"
    ):
        nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    assert nodes.call(node, calls.BlockdevFind(disk=disk)) is None
    assert "m14." not in node.sh("lvs --noheadings -o lv_name")


def test_a_kernel_that_asks_drbdadm_is_complained_of(nodes: Lab) -> None:
    node = nodes.nodes[1]
    helper = "/sys/module/drbd/parameters/usermode_helper"
    unit = calls.StorageUnit(kind="drbd", name=storage.GROUP)
    assert nodes.call(node, calls.NodeVerify(storage=(unit,)))["storage"] == []
    node.sh(f"echo -n /sbin/drbdadm > {helper}")
    try:
        (complaint,) = nodes.call(node, calls.NodeVerify(storage=(unit,)))["storage"]
        assert (
            "runs /sbin/drbdadm, which fails without configuration files; reload the module: modprobe drbd" in complaint
        )
        with pytest.raises(errors.EnvironmentFaultError, match="which fails without configuration files"):
            nodes.call(node, calls.BlockdevCreate(disk=mirror(15, node, None), owner=OWNER))
    finally:
        node.sh(f"echo -n /bin/true > {helper}")


def test_the_data_and_metadata_of_all_disks_are_placed_together(nodes: Lab) -> None:
    node = nodes.nodes[0]
    disks = tuple(mirror(minor, node, None, size=8) for minor in (16, 17))
    physical_volumes = nodes.call(node, calls.BlockdevPlace(dev_type="drbd", disks=disks))
    assert len(set(physical_volumes)) == 1
    assert len(physical_volumes[0]) == 1
    nodes.call(node, calls.BlockdevCreate(disk=disks[0], owner=OWNER, on=physical_volumes[0]))
    assert {state(nodes, node, child).on for child in disks[0].children} == {physical_volumes[0]}
    nodes.call(node, calls.BlockdevRemove(disk=disks[0], owner=OWNER))
