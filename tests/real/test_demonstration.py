"""The demonstration as a new user runs it: three nodes, a real virtual machine, two addresses that answer."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
NAME = "web1.example"
IPV4, IPV6 = "192.0.2.10", "2001:db8::1:0"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="QEMU is not installed"),
]


@dataclass
class Demo:
    """A demonstration beside a user's own: another folder, other namespaces."""

    folder: str
    prefix: str
    said: str = ""

    def script(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DEMO_DIR": self.folder, "DEMO_PREFIX": self.prefix}
        done = subprocess.run(
            [str(CHECKOUT / "demo/demo.sh"), *arguments],
            env=environment, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def gnt(self, *arguments: str) -> str:
        return self.script("gnt", *arguments).stdout

    def answers(self, address: str) -> bool:
        ping = ["ip", "netns", "exec", f"{self.prefix}3", "ping", "-c", "1", "-W", "1", address]
        return subprocess.run(ping, capture_output=True, check=False).returncode == 0

    def wait(self, address: str, *, answer: bool = True) -> None:
        deadline = time.monotonic() + 120
        while self.answers(address) is not answer:
            assert time.monotonic() < deadline, f"{address}: {'no' if answer else 'still an'} answer"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    # A name that ends with a letter, as demo/net.sh asks for, and differs between runs at the same time.
    prefix = f"gt{os.getpid() % 100000}x"
    made = Demo(tempfile.mkdtemp(prefix="gd", dir="/tmp") + "/d", prefix)
    try:
        made.said = made.script("up").stdout
        yield made
    finally:
        made.script("down")
        leftovers = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        assert prefix not in leftovers
        assert not Path(made.folder).exists()
        Path(made.folder).parent.rmdir()


@pytest.mark.promise("networks-4", "networks-6", "networks-40")
def test_the_virtual_machine_answers_on_an_address_of_each_pool(demo: Demo) -> None:
    assert demo.answers(IPV4)
    assert demo.answers(IPV6)
    assert demo.gnt("gnt-instance", "list", "--no-headers", "-o", "status,nic.ips", NAME).split() == [
        "running",
        f"{IPV4}/{IPV6}",
    ]


def test_each_step_is_shown_before_it_runs_and_the_end_says_what_to_try(demo: Demo) -> None:
    for step in ("gnt-cluster init", "gnt-node add", "gnt-network add", "gnt-network connect", "gnt-instance add"):
        assert f"\n$ {step}" in demo.said
    assert "gnt-instance console" in demo.said
    assert "make demo-down" in demo.said


def test_a_second_demonstration_says_that_one_is_up(demo: Demo) -> None:
    second = demo.script("up", check=False)
    assert second.returncode != 0
    assert "a demo is up since" in second.stderr
    assert len(second.stderr.splitlines()) == 1


def test_the_accelerator_that_a_guest_really_runs_with_is_known(demo: Demo) -> None:
    accelerator = demo.gnt("gnt-node", "list", "--no-headers", "-o", "accelerator", "node2").strip()
    assert accelerator in ("kvm", "tcg")
    assert f"accelerator: {accelerator}" in demo.gnt("gnt-node", "info", "node2")
    node = Path(demo.folder) / "node2"
    command = (Path("/proc") / _qemu(node) / "cmdline").read_text().split("\0")
    assert any(word.startswith(accelerator) for word in command)


def _qemu(node: Path) -> str:
    return next((node / "run/instances" / NAME).glob("*pid*")).read_text().strip()


def test_verify_finds_nothing_wrong(demo: Demo) -> None:
    assert "ERROR" not in demo.gnt("gnt-cluster", "verify")


def test_a_virtual_machine_that_dies_is_noticed_and_can_be_started_again(demo: Demo) -> None:
    os.kill(int(_qemu(Path(demo.folder) / "node2")), 9)
    demo.wait(IPV4, answer=False)
    assert "ERROR_down" in demo.gnt("gnt-instance", "list", "-o", "status", NAME)
    assert "EINSTANCEDOWN" in demo.script("gnt", "gnt-cluster", "verify", "--error-codes", check=False).stdout
    demo.gnt("gnt-instance", "start", NAME)
    demo.wait(IPV6)


def test_stop_start_and_reboot_of_the_guest(demo: Demo) -> None:
    demo.gnt("gnt-instance", "stop", NAME)
    assert "ADMIN_down" in demo.gnt("gnt-instance", "list", "-o", "status", NAME)
    assert not demo.answers(IPV4)
    demo.gnt("gnt-instance", "start", NAME)
    demo.wait(IPV4)
    demo.gnt("gnt-instance", "reboot", "-t", "full", NAME)
    demo.wait(IPV4)


def test_the_console_leads_to_the_guest(demo: Demo) -> None:
    command = demo.gnt("gnt-instance", "console", "--show-cmd", NAME).split()
    demo.wait(IPV4)
    process = subprocess.Popen(
        ["socat", "-", command[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"\necho $((6 * 7))-$(hostname)\n")
        process.stdin.flush()
        read = b""
        while b"42-web1.example" not in read:
            part = os.read(process.stdout.fileno(), 4096)
            assert part, read
            read += part
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.promise("networks-14")
def test_removing_the_instance_gives_its_addresses_back(demo: Demo) -> None:
    disks = Path(demo.folder) / "node2/srv/file-storage" / NAME
    assert disks.exists()
    before = _reserved(demo)
    demo.gnt("gnt-instance", "remove", "-f", NAME)
    demo.wait(IPV4, answer=False)
    assert _reserved(demo) == before - 2
    assert not disks.exists()
    assert demo.gnt("gnt-instance", "list", "--no-headers") == ""


def _reserved(demo: Demo) -> int:
    return int(demo.gnt("gnt-network", "list", "--no-headers", "-o", "reserved_count", "net1"))
