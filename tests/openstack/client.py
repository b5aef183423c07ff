"""The stock ``openstack`` command against the Neutron API of a cluster of real daemons.

The virtual environment of the command is created once for all checkouts. A command takes about a second.
"""

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests import cache, ports
from tests.cluster import lab
from tests.real import demonstration

HERE = Path(__file__).parent
NEEDS = [pytest.mark.real, demonstration.MINUTES]

SEGMENTS = """
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

USERS = """
admin secret write
anna secret project=tenant-1
ben secret project=tenant-2
"""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def environment() -> Path:
    """Return the virtual environment with the command; create it if it does not exist."""
    return cache.environment("openstackclient", HERE / "constraints.txt", "python-openstackclient")


def write_program(folder: Path) -> None:
    """Write the command as a program into a folder; that of the environment begins with a path that is gone."""
    program = folder / "openstack"
    program.write_text(f'#!/bin/sh\nexec {environment()}/bin/python -m openstackclient.shell "$@"\n')
    program.chmod(0o755)


@dataclass
class Cloud:
    """A cluster and its Neutron API; ``auth`` are the variables that log a user in."""

    cluster: lab.Lab
    url: str
    folder: Path
    auth: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, *arguments: str, who: str = "admin") -> subprocess.CompletedProcess[str]:
        """Run the command as a user."""
        return subprocess.run(
            [environment() / "bin/python", "-m", "openstackclient.shell", *arguments],
            env={**os.environ, "HOME": str(self.folder), "COLUMNS": "400", **self.login(who)},
            cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def login(self, who: str) -> dict[str, str]:
        """Return the variables that log a user in."""
        if who in self.auth:
            return self.auth[who]
        project = {"admin": "default", "anna": "tenant-1", "ben": "tenant-2"}[who]
        return {
            "OS_AUTH_TYPE": "password", "OS_AUTH_URL": f"{self.url}/v3", "OS_USERNAME": who, "OS_PASSWORD": "secret",
            "OS_PROJECT_NAME": project, "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }  # fmt: skip

    def output(self, *arguments: str, who: str = "admin") -> str:
        """Return the output of a command, which must succeed, with UUIDs and times replaced (``plain``)."""
        done = self.run(*arguments, who=who)
        assert done.returncode == 0, done.stdout + done.stderr
        return plain(done.stdout)

    def value(self, *arguments: str, who: str = "admin") -> dict[str, object]:
        """Return the object that a command shows."""
        done = self.run(*arguments, "-f", "json", who=who)
        assert done.returncode == 0, done.stdout + done.stderr
        return msgspec.convert(json.loads(done.stdout), dict[str, object])

    def rows(self, *arguments: str, who: str = "admin") -> list[dict[str, object]]:
        """Return the objects that a command lists."""
        done = self.run(*arguments, "-f", "json", who=who)
        assert done.returncode == 0, done.stdout + done.stderr
        return msgspec.convert(json.loads(done.stdout), list[dict[str, object]])

    def refused(self, *arguments: str, who: str = "admin") -> str:
        """Return the error output of a command, which must fail."""
        done = self.run(*arguments, who=who)
        assert done.returncode == 1, done.stdout + done.stderr
        return plain(done.stderr)


def plain(text: str) -> str:
    """Replace all UUIDs and times in a text by the same UUID and time, of the same length."""
    return _TIME.sub("2026-11-20T06:50:27Z", _UUID.sub("00000000-0000-0000-0000-000000000000", text))


def table(*rows: Sequence[object]) -> str:
    """Return rows as the command prints them, the first as the header; numbers are right-aligned."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        "|" + "|".join(
            f" {text.rjust(width) if isinstance(cell, int) and not isinstance(cell, bool) else text.ljust(width)} "
            for cell, text, width in zip(row, row_texts, widths, strict=True)
        ) + "|"
        for row, row_texts in zip(rows, texts, strict=True)
    ]  # fmt: skip
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


@contextlib.contextmanager
def cloud(*options: str) -> Iterator[Cloud]:
    """Run a cluster with segment ranges, and a Neutron API with these options."""
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.run("gnt-cluster", "modify", "--segment-ranges", "yes")
        (cluster_lab.master / "etc").mkdir(exist_ok=True)
        (cluster_lab.master / "etc/segments.ini").write_text(SEGMENTS)
        (cluster_lab.master / "lib/users").write_text(USERS)
        cluster_lab.kill_master()
        cluster_lab.start_master()
        port, folder = ports.free(), cluster_lab.folder / "home"
        folder.mkdir()
        where = ["--bind", "127.0.0.1", "--port", str(ports.free()), "--neutron-port", str(port), "--no-ssl"]
        daemon = subprocess.Popen([lab.BIN / "gantry-rapi", *where, "--root", str(cluster_lab.master), *options])
        try:
            lab.wait_until(lambda: lab.listens(port), "the Neutron API")
            yield Cloud(cluster_lab, f"http://127.0.0.1:{port}", folder)
        finally:
            daemon.terminate()
            daemon.wait(lab.TIMEOUT)
