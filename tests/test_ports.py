import subprocess
import sys

from tests import ports

OTHER = f"from tests import ports; print(*(ports.free() for _ in range({3 * ports.BLOCK})))"


def test_runs_of_the_tests_at_one_time_take_no_port_in_common() -> None:
    others = [subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = [ports.free() for _ in range(3 * ports.BLOCK)]
    # A process that has ended has no use for its ports.
    assert len(set(found)) == len(found)
    for other in others:
        assert not set(map(int, other.communicate(timeout=60)[0].split())) & set(found)


def test_the_kernel_picks_none_of_them() -> None:
    low, high = map(int, ports.KERNEL.read_text().split())
    if low > ports.FIRST + ports.BLOCK:
        assert not low <= ports.free() <= high
