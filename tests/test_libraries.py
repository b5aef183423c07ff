import subprocess
import sys

import pytest

LOGIC = ("address", "ipam", "jobs", "model", "operations", "rpc", "state")
BLOCKED = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiohttp", "twisted", "requests", "http"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
for room in {rooms}:
    package = importlib.import_module("gantry." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # It is loaded by neutron-server alone, which brings what it imports.
        if not module.name.startswith("gantry.ipam.neutron."):
            importlib.import_module(module.name)
"""


@pytest.mark.promise("cluster-12")
def test_what_decides_knows_no_protocol_library_and_no_daemon_needs_twisted() -> None:
    subprocess.run([sys.executable, "-c", BLOCKED.format(rooms=LOGIC)], check=True)
    daemons = (
        "import sys, gantry.daemons.master, gantry.daemons.node; print([n for n in sys.modules if n == 'twisted'])"
    )
    done = subprocess.run([sys.executable, "-c", daemons], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
