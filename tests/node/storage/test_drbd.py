"""What DRBD's driver asks of DRBD's programs, which here only write down how they were called."""

from unittest.mock import AsyncMock

import msgspec
import pytest
from tests.node.storage.test_drbd_status import SHOW

from gantry import errors
from gantry.node.storage import lvm, plain, programs
from gantry.node.storage.drbd import driver, setup
from gantry.rpc import calls
from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes

VERSION = "version: 8.4.11 (api:1/proto:86-101)\n"
OURS = SHOW.replace("a_data", "d0_data").replace("a_meta", "d0_meta").replace("s3 {cret", "s3cret")
CONNECTED = VERSION + " 1: cs:Connected ro:Secondary/Primary ds:UpToDate/UpToDate C r-----\n"
PARAMS: dict[str, calls.Value] = {
    "resync-rate": 1000,
    "protocol": "C",
    "disk-barriers": "bf",
    "meta-barriers": True,
    "dynamic-resync": False,
    "c-plan-ahead": 20,
    "c-fill-target": 0,
    "c-delay-target": 1,
    "c-max-rate": 61440,
    "c-min-rate": 4096,
    "disk-custom": "--al-extents=257",
    "net-custom": "--ping-int=5",
}


def part(name: str) -> calls.Disk:
    return calls.Disk(index=0, uuid=name, dev_type="plain", size=16, logical_id=("xenvg", name))


def disk(**changes: object) -> calls.Disk:
    new_disk = calls.Disk(
        index=0,
        uuid="d0",
        dev_type="drbd",
        size=16,
        params=PARAMS,
        children=(part("d0_data"), part("d0_meta")),
        mirror=calls.Mirror(minor=1, local="192.0.2.1", remote="192.0.2.2", port=11001, secret="s3cret"),
    )
    return msgspec.structs.replace(new_disk, **changes)


class MirrorMachine:
    """A node whose kernel and programs say what a test has them say."""

    def __init__(self, world: simulated.World, proc: str, *, show: str = "") -> None:
        self.world = world
        self.machine = world.machine("node1")
        self.show = show
        self.fails: dict[str, list[str]] = {}
        self.called: list[str] = []
        for program in ("drbdsetup", "drbdmeta", "dmesg", "lvs", "lvchange"):
            self.machine.processes.programs[program] = self._run
        world.run(self._write("/proc/drbd", proc))
        world.run(self._write(setup.HELPER, "/bin/true"))
        world.run(self._write("/sys/dev/block/253:0/ro", "0\n"))
        tools = programs.Programs(self.machine)
        volumes = plain.Plain(lvm.Lvm(tools), tools)
        self.driver = driver.Drbd(setup.Setup(self.machine, tools), tools, volumes=volumes)

    async def _write(self, path: str, text: str) -> None:
        await self.machine.disk.make_directory(path.rpartition("/")[0])
        await self.machine.disk.write(path, text.encode())

    async def _run(self, call: processes.Invocation) -> commands.Completed:
        program, *words = call.arguments
        if program == "lvs":
            return commands.Completed(0, self._volume(words), b"")
        if words[:1] == ["show"]:
            return commands.Completed(0, self.show.encode(), b"")
        command = words[5] if program == "drbdmeta" else words[0]
        self.called.append(" ".join([command, *words[1:]]) if program == "drbdsetup" else command)
        if self.fails.get(command):
            return commands.Completed(10, b"", self.fails[command].pop(0).encode())
        return commands.Completed(0, b"", b"")

    def _volume(self, words: list[str]) -> bytes:
        (choice,) = [word for word in words if word.startswith("lv_name=")]
        row = {
            "lv_name": choice.split('"')[1],
            "lv_size": str(16 << 20),
            "lv_tags": "",
            "lv_attr": "-wi-a-----",
            "origin": "",
            "devices": "/dev/sda(0)",
            "lv_kernel_major": "253",
            "lv_kernel_minor": "0",
        }
        return msgspec.json.encode({"report": [{"lv": [row]}]})

    def activate(self, disk_to_activate: calls.Disk, *, primary: bool = False) -> None:
        self.world.run(self.driver.activate(disk_to_activate, primary=primary))

    @property
    def commands(self) -> list[str]:
        return [called.split()[0] for called in self.called]


def test_a_disk_that_is_not_set_up_gets_all_that_it_needs() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.activate(disk(), primary=True)
    assert node.called == [
        "new-resource resource1",
        "new-minor resource1 1 0",
        "attach 1 /dev/xenvg/d0_data /dev/xenvg/d0_meta flexible --on-io-error=detach --disk-barrier=no "
        "--disk-flushes=no --md-flushes=no --c-plan-ahead=0 --resync-rate=1000 --al-extents=257",
        "connect resource1 ipv4:192.0.2.1:11001 ipv4:192.0.2.2:11001 --protocol=C --cram-hmac-alg=sha256 "
        "--shared-secret=s3cret --after-sb-0pri=discard-zero-changes --after-sb-1pri=consensus --ping-int=5",
        "primary 1",
    ]


def test_a_disk_that_is_set_up_is_only_tuned() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=OURS)
        node.activate(disk())
    assert node.commands == ["disk-options"]


def test_a_resynchronisation_that_adapts_gets_its_bounds() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=OURS)
        node.activate(disk(params={**PARAMS, "dynamic-resync": True, "disk-barriers": "n", "meta-barriers": False}))
    assert node.called == [
        "disk-options 1 --c-plan-ahead=20 --c-fill-target=0s --c-delay-target=1 --c-max-rate=61440 --c-min-rate=4096 "
        "--al-extents=257"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"remote": "192.0.2.9"},
        {"port": 11009},
        {"secret": "another"},
    ],
)
def test_a_disk_with_another_peer_or_secret_is_reconnected(change: dict[str, object]) -> None:
    mirror = disk().mirror
    assert mirror is not None
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=OURS)
        node.activate(disk(mirror=msgspec.structs.replace(mirror, **change)))
    assert node.commands == ["disk-options", "disconnect", "connect"]


FOREIGN = [
    SHOW,
    OURS.replace("resource1", "somebody"),
    "resource resource1 {\n options {\n }\n _this_host {\n volume 0 {\n device minor 1;\n }\n }\n}\n",
]


@pytest.mark.parametrize("show", FOREIGN)
def test_what_has_the_minor_is_taken_down_first(show: str) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=show)
        node.activate(disk())
    assert node.commands[:3] == ["down", "new-resource", "new-minor"]
    assert node.called[0] == ("down somebody" if "somebody" in show else "down resource1")


@pytest.fixture
def with_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes that are there already when a disk is made."""
    monkeypatch.setattr(plain.Plain, "ensure_volume", AsyncMock(return_value=False))


@pytest.mark.usefixtures("with_volumes")
@pytest.mark.parametrize("show", FOREIGN)
def test_what_has_the_minor_of_a_new_disk_is_taken_down_before_metadata_is_looked_for(show: str) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=show)
        world.run(node.driver.create(disk(), owner="vm1"))
    assert node.commands == ["down", "dump-md"]


@pytest.mark.usefixtures("with_volumes")
@pytest.mark.parametrize("new", [False, True])
def test_what_has_the_minor_and_is_in_use_is_left_alone(new: bool) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=SHOW)
        node.fails["down"] = ["1: State change failed: (-12) Device is held open by someone"]
        with pytest.raises(errors.WrongStateError, match=r"drbd1 on node node1 cannot be shut down: .* held open"):
            world.run(node.driver.create(disk(), owner="vm1") if new else node.driver.activate(disk(), primary=False))
    assert node.commands == ["down"]


TWO_PRIMARIES = "1: State change failed: (-1) Multiple primaries not allowed by config"


def test_a_disk_whose_primary_peer_has_just_died_becomes_primary_when_the_kernel_notices() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=OURS)
        node.fails["primary"] = [TWO_PRIMARIES] * 20
        node.activate(disk(), primary=True)
        assert 5 < world.clock.monotonic() < setup.DEAD_PEER_SECONDS
    assert node.commands == ["disk-options", *["primary"] * 21]


@pytest.mark.parametrize(
    ("says", "hint", "seconds"),
    [
        (TWO_PRIMARIES, "its other node uses it: stop it there", setup.DEAD_PEER_SECONDS),
        ("1: State change failed: (-2) Need access to UpToDate data", "wait for its synchronization", 0),
    ],
)
def test_a_disk_that_cannot_become_primary_says_what_to_do(says: str, hint: str, seconds: float) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=OURS)
        node.fails["primary"] = [says] * 1000
        begin = world.clock.monotonic()
        with pytest.raises(errors.WrongStateError, match=f"cannot become primary: .*{hint}"):
            node.activate(disk(), primary=True)
        assert seconds <= world.clock.monotonic() - begin < seconds + 2


def test_what_somebody_else_has_is_not_shut_down_with_the_disk() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, CONNECTED, show=SHOW)
        world.run(node.driver.deactivate(disk()))
    assert "down" not in node.commands


def test_what_a_crash_left_open_is_closed_before_the_disk_is_attached() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.fails["attach"] = ["1: Failure: (165) Unclean meta-data found."]
        node.activate(disk())
    assert node.commands == ["new-resource", "new-minor", "attach", "apply-al", "attach", "connect"]


@pytest.mark.parametrize(
    "says, written",
    [
        ("No valid meta data found", True),
        ("", False),
        ('Found meta data is "unclean", please apply-al first', False),
    ],
)
def test_new_volumes_get_metadata_and_others_keep_theirs(says: str, written: bool) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.fails["dump-md"] = [says] if says else []
        world.run(node.driver.attach(disk()))
    assert node.commands == ["dump-md", *(["create-md"] if written else []), "attach"]


def test_metadata_that_cannot_be_read_is_not_written_over() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.fails["dump-md"] = ["open(/dev/xenvg/d0_meta) failed"]
        with pytest.raises(errors.BlockDeviceError, match="dump-md failed on node node1: open"):
            world.run(node.driver.attach(disk()))
    assert node.commands == ["dump-md"]


def test_a_disk_whose_metadata_is_lost_is_not_taken_for_a_new_one() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.fails["attach"] = ["1: Failure: (119) No valid meta-data signature found."]
        with pytest.raises(errors.BlockDeviceError, match=r"attach failed on node node1: .*No valid meta-data"):
            node.activate(disk())
    assert "create-md" not in node.commands


def test_a_resource_that_a_crash_left_without_a_minor_is_recreated() -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        node.fails["new-resource"] = ["Failure: (174) resource exists"]
        node.activate(disk())
    assert node.commands[:4] == ["new-resource", "del-resource", "new-resource", "new-minor"]


@pytest.mark.parametrize(
    "proc, message",
    [
        ("", "node node1 has DRBD of an unknown version; use DRBD 8.4, which is a part of Linux"),
        ("version: 9.1.4 (api:2/proto:110-121)\n", "node node1 has DRBD 9.1; use DRBD 8.4"),
    ],
)
def test_a_kernel_that_cannot_is_named_before_anything_is_changed(proc: str, message: str) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, proc)
        with pytest.raises(errors.EnvironmentFaultError, match=message):
            node.activate(disk())
        world.run(node.machine.disk.remove("/proc/drbd"))
        with pytest.raises(errors.EnvironmentFaultError, match="no DRBD module loaded; load it: modprobe drbd"):
            node.activate(disk())
    assert node.called == []


@pytest.mark.parametrize(
    "wrong, message",
    [
        (disk(mirror=None), "does not name its peer"),
        (disk(children=()), "needs two volumes, the call has 0"),
        (disk(params={}), "missing required field"),
        (disk(params={**PARAMS, "resync-rate": "fast"}), "Expected `int`"),
    ],
)
def test_a_disk_that_is_not_filled_is_refused(wrong: calls.Disk, message: str) -> None:
    with simulated.World(seed=1) as world:
        node = MirrorMachine(world, VERSION)
        with pytest.raises(errors.InvalidError, match=message):
            node.activate(wrong)
    assert node.called == []
