import subprocess
import sys

from tests import ports

OTHER = f"from tests import ports; print(*(ports.free() for _ in range({3 * ports.BLOCK})))"


def test_concurrent_test_runs_never_use_the_same_port() -> None:
    processes = [subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    free_ports = [ports.free() for _ in range(3 * ports.BLOCK)]
    # A process that has ended has no use for its ports.
    assert len(set(free_ports)) == len(free_ports)
    for process in processes:
        assert not set(map(int, process.communicate(timeout=60)[0].split())) & set(free_ports)


def test_ports_are_outside_the_range_of_the_kernel() -> None:
    low, high = map(int, ports.KERNEL.read_text().split())
    if low > ports.FIRST + ports.BLOCK:
        assert not low <= ports.free() <= high
