"""The pages as a reader types them: on the demonstration's cluster, in the reader's order, not a word replaced.

All pages share one demonstration, as for a reader; after a page that failed the next one begins on another.
"""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab
from tests.docs import pages
from tests.openstack import client
from tests.real import demonstration, typist

TUTORIAL = pages.DOCS / "tutorial/networks.md"
HOW_TO = pages.DOCS / "how-to"
LISTED = [
    HOW_TO / name for name in re.findall(r"^- \[.*?\]\((\S+\.md)\)", (HOW_TO / "README.md").read_text(), re.MULTILINE)
]
"""The how-to pages, in the order of their list."""

LEFT_OUT = {
    "install": "it begins with three bare machines",
    "authority-key": "its token needs a PKCS#11 module",
    "doctor": "it examines a machine, and a node there is only a part of one",
    "segments-on-nodes": "VLANs and VXLAN change the kernel's devices of a whole machine",
    "storage": "LVM, DRBD and shared folders need disks and a kernel of their own",
    "services": "it needs systemd",
    "upgrade-versions": "it needs packages of two versions",
    "ipam-driver": "it needs a PostgreSQL server",
    "neutron-ipam-driver": "it needs a neutron-server",
    "kubernetes-controllers": "it needs a Kubernetes API server",
    "upgrade": "it needs a cluster of Ganeti",
    "images": "it needs a container runtime",
}
"""Pages with commands that are not typed on the demonstration, with the reason."""


def _has_commands(page: Path) -> bool:
    return any(isinstance(step, pages.Command) for step in pages.steps(page))


TYPED = [TUTORIAL, *(page for page in LISTED if page.stem not in LEFT_OUT and _has_commands(page))]

OPENSTACK = "neutron"
"""The page with the ``openstack`` command, here that of ``tests.openstack``."""

LOG_LINES = 40

LOOKS = {
    "instances": "gnt-instance list --no-headers -o name,pnode,status,admin_state,nic.ips,disk.sizes",
    "networks": "gnt-network list --no-headers -o name,subnets,group_list,external_reservations,tags",
    "nodes": "gnt-node list --no-headers -o name,role,group,master_capable,vm_capable,tags,detached_disks",
    "groups": "gnt-group list --no-headers -o name,alloc_policy,node_list,tags",
    "segments": "gantry segment show",
    "segment ranges": "gantry segment range list --no-headers",
    "systems": "gnt-os list --no-headers",
    "exports": "gnt-backup list --no-headers",
    "settings": "gnt-cluster info | grep -v '^Modification time'",
    "queue": "gnt-cluster queue info",
    "files": "cd /etc/gantry && find . ! -type d | sort",
}
"""What is compared before and after a page: what a command prints on the first node."""


def _state(demo: demonstration.Demo) -> dict[str, str]:
    """Return what a page must leave as it was."""
    state = {what: demo.on(1, "bash", "-c", command) for what, command in LOOKS.items()}
    for node in (1, 2, 3):
        state[f"daemons of node{node}"] = " ".join(sorted(_programs(f"{demo.prefix}{node}")))
    verified = demo.script("gnt", "gnt-cluster", "verify", check=False).stdout
    return state | {"errors": "\n".join(line for line in verified.splitlines() if "ERROR" in line)}


def _programs(space: str) -> set[str]:
    """Return Gantry's programs that run in a network namespace."""
    pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=True).stdout.split()
    programs = set[str]()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            programs |= {name for name in (Path(word).name for word in words[:2]) if name.startswith("gantry-")}
    return programs


def _print_logs(demo: demonstration.Demo) -> None:
    """Print the ends of the daemons' logs, which pytest shows beside a failure."""
    for log in sorted(Path(demo.folder).glob("node*/log/*.log")):
        lines = log.read_text(errors="replace").splitlines()
        print(f"--- {log.relative_to(demo.folder)}", *lines[-LOG_LINES:], sep="\n")


class Stage:
    """The demonstration that the pages share, until one of them fails."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._demo: demonstration.Demo | None = None

    @contextlib.contextmanager
    def page(self) -> Iterator[demonstration.Demo]:
        """Return the demonstration for one page; a failure takes it down."""
        if self._demo is None:
            self._demo = self._stack.enter_context(demonstration.up("gt"))
        try:
            yield self._demo
        except BaseException:
            _print_logs(self._demo)
            self.close()
            raise

    def close(self) -> None:
        self._demo = None
        self._stack.close()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Take the demonstration down after the last page."""
    stage = Stage()
    try:
        yield stage
    finally:
        stage.close()


MARKS = [*demonstration.NEEDS, demonstration.MINUTES]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id="tutorial-networks" if page == TUTORIAL else page.stem,
            marks=[*MARKS, pytest.mark.promise("networks-84")] if page == TUTORIAL else MARKS,
        )
        for page in TYPED
    ],
)
def test_a_page_does_what_it_says_and_leaves_the_cluster_as_it_was(page: Path, stage: Stage, tmp_path: Path) -> None:
    if page.stem == OPENSTACK:
        client.write_program(tmp_path)
    with stage.page() as demo:
        before = _state(demo)
        assert before["errors"] == ""
        with typist.at(demo, tmp_path) as person:
            person.type(page)
        # States of nodes and guests follow a second later.
        with contextlib.suppress(TimeoutError):
            lab.wait_until(lambda: _state(demo) == before, "the cluster is as before the page")
        after = _state(demo)
        assert {what: state for what, state in after.items() if state != before[what]} == {}


def test_a_page_that_is_not_typed_says_that_it_is_not_for_the_demonstration() -> None:
    silent = {page.stem for page in LISTED if not _has_commands(page) and list(pages.typed(page))}
    assert silent <= LEFT_OUT.keys(), "pages whose commands nobody runs"
    assert LEFT_OUT.keys() <= {page.stem for page in LISTED}
    for name, reason in LEFT_OUT.items():
        assert f"Not in the demonstration: {reason}." in " ".join((HOW_TO / f"{name}.md").read_text().split()), name
