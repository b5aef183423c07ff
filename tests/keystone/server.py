"""A real Keystone for a test, over TLS on a loopback address: SQLite, fernet tokens, two projects with users.

Its virtual environment is created once for all checkouts.
"""

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests import cache, leftovers, ports
from tests.real import demonstration
from tests.real.nodes import lab as machines

from gantry import security

HERE = Path(__file__).parent
NEEDS = [pytest.mark.real, demonstration.MINUTES]
TIMEOUT_SECONDS = 120.0
HOST = "127.0.0.1"
PASSWORD = "secret"
ACCOUNT_PASSWORD = "service-secret"
USERS = {"anna": ("tenant-1", "member"), "ben": ("tenant-2", "member"), "rita": ("tenant-1", "reader")}

CONFIGURATION = """\
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet-keys
[credential]
key_repository = {folder}/credential-keys
[identity]
password_hash_rounds = 4
[token]
expiration = {expiration}
"""
SERVED = """\
wsgi_app = "keystone.wsgi.api:application"
bind = "{host}:{port}"
threads = 4
timeout = 300
certfile = "{folder}/server.pem"
keyfile = "{folder}/server.key"
control_socket_disable = True
"""

Object = dict[str, object]


def environment() -> Path:
    """Return the virtual environment with Keystone; create it if it does not exist."""
    return cache.environment("keystone", HERE / "constraints.txt", "keystone", "gunicorn")


@dataclass
class Keystone:
    """A Keystone: its folder, and its servers, which share a database."""

    folder: Path
    servers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = 0
    """The port of the first server."""

    @property
    def authority(self) -> Path:
        """Return the path of the CA certificate."""
        return self.folder / "authority.pem"

    @property
    def url(self) -> str:
        """Return its URL, which is also in its catalog."""
        return f"https://{HOST}:{self.port}/v3"

    def prepare(self) -> None:
        """Create certificate, database, keys, the administrator, and Keystone's initial roles."""
        now, self.port = time.time(), ports.free()
        authority = security.make_authority("test", now)
        key, request = security.make_request("keystone")
        issued = security.issue(authority, request, uuid="keystone", name="keystone.example", address=HOST, now=now)
        self.authority.write_bytes(authority.certificates)
        (self.folder / "server.pem").write_bytes(issued)
        (self.folder / "server.key").write_bytes(key)
        self._configure(self.folder, expiration=3600)
        owner = ("--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid()))
        self._manage("db_sync")
        self._manage("fernet_setup", *owner)
        self._manage("credential_setup", *owner)
        region = ("--bootstrap-region-id", "RegionOne")
        self._manage("bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-public-url", self.url, *region)

    def _configure(self, folder: Path, *, expiration: int) -> None:
        text = CONFIGURATION.format(folder=self.folder, expiration=expiration)
        (folder / "keystone.conf").write_text(text)

    def _manage(self, *arguments: str) -> None:
        manage = "from keystone.cmd import manage; manage.main()"
        command = [str(environment() / "bin/python"), "-c", manage, "--config-file", str(self.folder / "keystone.conf")]
        completed = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def start(self, port: int = 0, *, expiration: int = 3600) -> None:
        """Start a server, by default the first, whose tokens expire after ``expiration`` seconds."""
        port = port or self.port
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        self._configure(folder, expiration=expiration)
        served = SERVED.format(host=HOST, port=port, folder=self.folder)
        (folder / "gunicorn.conf.py").write_text(served)
        with open(folder / "log", "ab") as log:
            self.servers[port] = subprocess.Popen(
                [environment() / "bin/python", "-m", "gunicorn"],
                env={**os.environ, "OS_KEYSTONE_CONFIG_FILES": str(folder / "keystone.conf")},
                cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        machines.until(lambda: self._answers(port), f"see {folder}/log", timeout=TIMEOUT_SECONDS)

    def _answers(self, port: int) -> bool:
        assert self.servers[port].poll() is None, (self.folder / str(port) / "log").read_text()[-4000:]
        try:
            return self.say("GET", "", port=port)[0] == 200
        except OSError:
            return False

    def kill(self, port: int) -> None:
        """End a server with all its workers."""
        process = self.servers.pop(port)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(TIMEOUT_SECONDS)

    def say(
        self, method: str, path: str, body: object = None, *, token: str = "", port: int = 0
    ) -> tuple[int, Object, Mapping[str, str]]:
        """Send a request to the identity API; return status, body and headers of the answer."""
        trusted = ssl.create_default_context(cafile=self.authority)
        connection = http.client.HTTPSConnection(HOST, port or self.port, timeout=TIMEOUT_SECONDS, context=trusted)
        try:
            sent = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
            connection.request(method, f"/v3{path}", sent, headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, msgspec.convert(json.loads(content), Object) if content else {}, dict(answer.headers)
        finally:
            connection.close()

    def login(self, user: str, project: str, *, password: str = PASSWORD, port: int = 0) -> str:
        """Return a token of a user in a project."""
        domain = {"id": "default"}
        who = {"name": user, "domain": domain, "password": password}
        identity = {"methods": ["password"], "password": {"user": who}}
        scope = {"project": {"name": project, "domain": domain}}
        status, answer, headers = self.say(
            "POST", "/auth/tokens", {"auth": {"identity": identity, "scope": scope}}, port=port
        )
        assert status == 201, answer
        return headers["X-Subject-Token"]

    def change(self, method: str, path: str, body: object = None) -> Object:
        """Change something as the administrator; return the object."""
        status, answer, _ = self.say(method, path, body, token=self.login("admin", "admin"))
        assert status in (200, 201, 204), answer
        return msgspec.convert(next(iter(answer.values()), {}), Object)

    def populate(self) -> None:
        """Create the projects, their users, and the service account of the Neutron API."""
        _, answer, _ = self.say("GET", "/roles", token=self.login("admin", "admin"))
        roles = {str(role["name"]): str(role["id"]) for role in msgspec.convert(answer["roles"], list[Object])}
        projects: dict[str, str] = {}
        for user, (project, role) in {**USERS, "gantry": ("service", "service")}.items():
            if project not in projects:
                created = self.change("POST", "/projects", {"project": {"name": project, "domain_id": "default"}})
                projects[project] = str(created["id"])
            password = ACCOUNT_PASSWORD if user == "gantry" else PASSWORD
            values = {"name": user, "domain_id": "default", "password": password}
            key = self.change("POST", "/users", {"user": values})["id"]
            self.change("PUT", f"/projects/{projects[project]}/users/{key}/roles/{roles[role]}")

    def set_password(self, user: str, password: str) -> None:
        """Set another password of a user, which revokes the user's tokens."""
        _, answer, _ = self.say("GET", f"/users?name={user}", token=self.login("admin", "admin"))
        (account,) = msgspec.convert(answer["users"], list[Object])
        self.change("PATCH", f"/users/{account['id']}", {"user": {"password": password}})

    def announce(self, url: str) -> None:
        """Add the Neutron API to the catalog."""
        service = self.change("POST", "/services", {"service": {"type": "network", "name": "neutron"}})["id"]
        values = {"service_id": service, "interface": "public", "region_id": "RegionOne", "url": url}
        self.change("POST", "/endpoints", {"endpoint": values})


@contextlib.contextmanager
def running() -> Iterator[Keystone]:
    """Start a Keystone with its users and remove it afterwards."""
    with leftovers.folder("gk") as name:
        keystone = Keystone(Path(name))
        keystone.prepare()
        try:
            keystone.start()
            keystone.populate()
            yield keystone
        finally:
            for port in list(keystone.servers):
                keystone.kill(port)
