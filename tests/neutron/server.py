"""A real neutron-server for a test: ML2 without mechanism drivers or authentication, on PostgreSQL or SQLite.

Its virtual environment is created once for all checkouts; Gantry is imported from this checkout by ``PYTHONPATH``, with
the entry points of ``pyproject.toml``. Its worker processes are forked after the application was loaded, as uWSGI does.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import cache, leftovers, ports, postgres
from tests.real import demonstration
from tests.real.nodes import lab

HERE = Path(__file__).parent
NEEDS = [*postgres.NEEDS, demonstration.MINUTES]
TIMEOUT_SECONDS = 120.0

CONFIGURATION = """\
[DEFAULT]
core_plugin = ml2
service_plugins =
auth_strategy = noauth
transport_url = fake://
state_path = {folder}/state
api_paste_config = {environment}/etc/neutron/api-paste.ini
{driver}
dhcp_agent_notification = false
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = {database}
max_pool_size = 20
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
[oslo_concurrency]
lock_path = {folder}/lock
[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers =
extension_drivers = port_security
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
[gantry]
{own}
"""
SERVED = """\
wsgi_app = "neutron.wsgi.api:application"
bind = "127.0.0.1:{port}"
workers = {workers}
threads = 4
timeout = 300
preload_app = True
control_socket_disable = True


def when_ready(server):
    # Neutron reads Port.port_forwardings, which exists only after a query: a worker whose first request deletes a
    # port would answer 500.
    from sqlalchemy import orm

    orm.configure_mappers()
"""


def environment() -> Path:
    """Return the virtual environment with neutron-server; create it if it does not exist."""
    return cache.environment(
        "neutron", HERE / "constraints.txt", "neutron", "gunicorn", "psycopg[binary]", "msgspec", "pytest"
    )


@dataclass
class Neutron:
    """A Neutron: its folder with neutron.conf, and servers over one database."""

    folder: Path
    database: str
    own: str = ""
    """The URL of the driver's database; if empty, its tables are in Neutron's database."""
    driver: str = "gantry"
    """The driver in neutron.conf; empty to leave the option out."""
    servers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Write the configuration and create Neutron's tables from its models, as its migrations need MySQL."""
        self.configure()
        self.python("tests.neutron.inside.tables", *self.arguments)

    def plug(self) -> None:
        """Register Gantry's entry points, as an installation does."""
        site = self.folder / "site" / "gantry-0.dist-info"
        site.mkdir(parents=True)
        project = tomllib.loads((demonstration.CHECKOUT / "pyproject.toml").read_text())["project"]
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: gantry\nVersion: 0\n")
        groups = project["entry-points"].items()
        (site / "entry_points.txt").write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {to}\n" for name, to in points.items()) for group, points in groups
            )
        )

    def configure(self) -> None:
        """Write neutron.conf from the current attributes."""
        text = CONFIGURATION.format(
            folder=self.folder, environment=environment(), database=self.database,
            driver=f"ipam_driver = {self.driver}" if self.driver else "",
            own=f"connection = {self.own}" if self.own else "",
        )  # fmt: skip
        (self.folder / "neutron.conf").write_text(text)

    @property
    def arguments(self) -> list[str]:
        return ["--config-file", str(self.folder / "neutron.conf")]

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables of a Neutron process; each has its own TMPDIR, as election files persist."""
        elections = self.folder / f"tmp{time.monotonic_ns()}"
        elections.mkdir()
        path = [self.folder / "site", demonstration.CHECKOUT / "src", demonstration.CHECKOUT]
        return {
            **os.environ, "PYTHONPATH": ":".join(map(str, path)), "PYTHONWARNINGS": "ignore", "TMPDIR": str(elections),
            "OS_NEUTRON_CONFIG_DIR": str(self.folder), "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
        }  # fmt: skip

    def python(self, module: str, *arguments: str, code: int = 0) -> str:
        """Run a module in Neutron's environment and return what it printed."""
        done = subprocess.run(
            [str(environment() / "bin/python"), "-m", module, *arguments],
            env=self.variables, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def start(self, *, workers: int) -> "Client":
        """Start a server and return a client of it."""
        port = ports.free()
        folder = self.folder / str(port)
        folder.mkdir()
        (folder / "gunicorn.conf.py").write_text(SERVED.format(port=port, workers=workers))
        with open(folder / "log", "ab") as log:
            self.servers[port] = subprocess.Popen(
                [str(environment() / "bin/python"), "-m", "gunicorn"],
                env=self.variables, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        lab.until(lambda: self._answers(port), f"see {folder}/log", timeout=TIMEOUT_SECONDS)
        return Client(port)

    def _answers(self, port: int) -> bool:
        assert self.servers[port].poll() is None, (self.folder / str(port) / "log").read_text()[-4000:]
        try:
            return Client(port).call("GET", "/v2.0/networks")[0] == 200
        except OSError:
            return False

    def kill(self, port: int, number: signal.Signals = signal.SIGKILL) -> None:
        """End a server with all its workers."""
        process = self.servers.pop(port)
        os.killpg(process.pid, number)
        process.wait(TIMEOUT_SECONDS)

    def logs(self) -> str:
        """Return the logs of all servers."""
        return "".join(log.read_text(errors="replace") for log in self.folder.glob("*/log"))


@dataclass(frozen=True)
class Client:
    """A client of one server, as administrator; threads may share it."""

    port: int

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[int, Any]:
        """Send a request; return status and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json", "Connection": "close"})
            answer = connection.getresponse()
            answer_body = answer.read()
            return answer.status, json.loads(answer_body) if answer_body else None
        finally:
            connection.close()

    def create(self, kind: str, **values: object) -> dict[str, Any]:
        """Create an object and return it."""
        status, body = self.call("POST", f"/v2.0/{kind}s", {kind: values})
        assert status == 201, body
        created: dict[str, Any] = body[kind]
        return created

    def update(self, kind: str, uuid: str, **values: object) -> dict[str, Any]:
        status, body = self.call("PUT", f"/v2.0/{kind}s/{uuid}", {kind: values})
        assert status == 200, body
        updated: dict[str, Any] = body[kind]
        return updated

    def delete(self, kind: str, uuid: str) -> None:
        status, body = self.call("DELETE", f"/v2.0/{kind}s/{uuid}")
        assert status == 204, body

    def list(self, kind: str, **filters: str) -> list[dict[str, Any]]:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        status, body = self.call("GET", f"/v2.0/{kind}s?{query}")
        assert status == 200, body
        objects: list[dict[str, Any]] = body[f"{kind}s"]
        return objects

    def network(self, cidr: str, **values: object) -> tuple[str, str]:
        """Create a network with a subnet and return their ids."""
        network = self.create("network")["id"]
        version = 6 if ":" in cidr else 4
        return network, self.create("subnet", network_id=network, ip_version=version, cidr=cidr, **values)["id"]


def addresses(ports: list[dict[str, Any]]) -> list[str]:
    return [fixed["ip_address"] for port in ports for fixed in port["fixed_ips"]]


@contextlib.contextmanager
def running(
    database: str, own: str = "", *, driver: str = "gantry", workers: int = 2
) -> Iterator[tuple[Neutron, Client]]:
    """Start a Neutron with one server, and remove it afterwards."""
    with leftovers.folder("gq") as name:
        neutron = Neutron(Path(name), database, own, driver)
        neutron.plug()
        neutron.prepare()
        try:
            yield neutron, neutron.start(workers=workers)
        except AssertionError as error:
            error.add_note(neutron.logs()[-20_000:])
            raise
        finally:
            for port in list(neutron.servers):
                neutron.kill(port)


def at_once(count: int, call: Any) -> list[Any]:
    """Return the results of ``call`` for 0 to count-1, from eight threads."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(call, range(count)))
