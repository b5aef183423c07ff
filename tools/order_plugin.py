"""The pytest plugin that puts the slowest test files first, so that no worker ends long after the others.

The workers of pytest-xdist take whole files (``--dist loadfile``) in the order of collection, if
``--no-loadscope-reorder`` is given as in the Makefile. A slow file that is taken last would run alone. The order of the
tests within a file, and of all other files, stays.
"""

import pytest

SLOWEST = (
    "tests/real/test_pages.py",
    "tests/real/nodes/test_cluster.py",
    "tests/real/nodes/test_mirrors.py",
    "tests/real/xen/test_guests.py",
    "tests/neutron/test_ports.py",
    "tests/real/test_migration.py",
    "tests/real/nodes/test_guests.py",
    "tests/neutron/test_transactions.py",
    "tests/kubernetes/test_layers.py",
    "tests/neutron/test_crowd.py",
    "tests/real/test_cut_cables.py",
    "tests/real/test_nic_hotplug.py",
    "tests/real/test_demonstration.py",
    "tests/real/test_backup.py",
    "tests/real/test_segments.py",
    "tests/cluster/test_master_role.py",
    "tests/docs/test_snippets.py",
    "tests/cluster/test_recovery.py",
    "tests/sim/test_mistakes.py",
    "tests/sim/test_majority_mistakes.py",
    "tests/cluster/test_certificates.py",
    "tests/doors/hostile/test_http.py",
    "tests/cluster/test_watcher.py",
    "tests/sim/test_cluster.py",
    "tests/cluster/test_survival.py",
    "tests/cluster/test_rapi.py",
    "tests/cluster/test_segments.py",
    "tests/tools/test_promises.py",
    "tests/sim/test_scenario.py",
    "tests/kubernetes/contract/test_faults.py",
    "tests/cluster/test_frozen_node.py",
    "tests/fuzz/test_openapi.py",
    "tests/cluster/test_retention.py",
    "tests/kubernetes/controllers/test_many.py",
    "tests/address/test_space.py",
)
"""The files, the slowest first, as ``--durations`` shows them; a file of which a run selects no test does not count."""


def position(test: str) -> int:
    """Return the position of a test's file in ``SLOWEST``, and the number behind the last one if it is not there."""
    file = test.partition("::")[0]
    return SLOWEST.index(file) if file in SLOWEST else len(SLOWEST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by the position of the file that they are in."""
    items.sort(key=lambda item: position(item.nodeid))
