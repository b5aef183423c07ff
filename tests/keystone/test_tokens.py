"""The Neutron API with a real Keystone and the stock ``openstack`` command: which tokens it accepts, and until when."""

import contextlib
import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib import parse

import pytest
from tests import ports
from tests.cluster import lab
from tests.keystone import server
from tests.openstack import client
from tests.real.nodes import lab as machines

from gantry import errors, security
from gantry.doors.neutron import keystone
from gantry.runtime import real

pytestmark = server.NEEDS

RANGE = ("network", "segment", "range")
PROJECTS = {"admin": "admin", **{user: project for user, (project, _) in server.USERS.items()}}


@dataclass
class Cloud:
    """A cluster whose Neutron API uses a Keystone."""

    keystone: server.Keystone
    cloud: client.Cloud
    password_file: Path

    def status(self, token: str) -> int:
        """Return the status of a request with a token; check the challenge of an answer 401."""
        connection = http.client.HTTPConnection(parse.urlsplit(self.cloud.url).netloc, timeout=server.TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/v2.0/networks", headers={"X-Auth-Token": token} if token else {})
            answer = connection.getresponse()
            answer.read()
            challenge = answer.headers.get("WWW-Authenticate")
            assert challenge == (f'Keystone uri="{self.keystone.url}"' if answer.status == 401 else None)
            return answer.status
        finally:
            connection.close()

    def logged(self) -> str:
        """Return the logs of the remote API daemon."""
        return "".join(path.read_text() for path in (self.cloud.cluster.master / "log").glob("rapi-*.log"))


@pytest.fixture(scope="module")
def deployment() -> Iterator[Cloud]:
    with contextlib.ExitStack() as stack:
        keystone = stack.enter_context(server.running())
        secret = keystone.folder / "password"
        secret.write_text(f"{server.ACCOUNT_PASSWORD}\n")
        secret.chmod(0o600)
        options = ("--neutron-auth", "keystone", "--keystone-url", keystone.url, "--keystone-cache", "1")
        files = ("--keystone-password-file", str(secret), "--keystone-ca", str(keystone.authority))
        cloud = stack.enter_context(client.cloud(*options, *files))
        keystone.announce(cloud.url)
        for user, project in PROJECTS.items():
            cloud.auth[user] = {
                "OS_AUTH_TYPE": "password", "OS_AUTH_URL": keystone.url, "OS_CACERT": str(keystone.authority),
                "OS_USERNAME": user, "OS_PASSWORD": server.PASSWORD, "OS_PROJECT_NAME": project,
                "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default", "OS_IDENTITY_API_VERSION": "3",
            }  # fmt: skip
        yield Cloud(keystone, cloud, secret)


def test_a_project_gets_its_own_segments_and_sees_its_own_networks(deployment: Cloud) -> None:
    cloud = deployment.cloud
    private = ("--private", "--project", "tenant-1", "--network-type", "vlan", "--physical-network", "physnet1")
    segment_range = cloud.value(*RANGE, "create", *private, "--minimum", "200", "--maximum", "209", "range-t1")
    network = cloud.value("network", "create", "t1", who="anna")
    assert (network["project_id"], network["provider:segmentation_id"]) == (segment_range["project_id"], None)
    assert cloud.value("network", "show", "t1")["provider:segmentation_id"] == 200
    assert [row["Name"] for row in cloud.rows("network", "list", who="rita")] == ["t1"]
    assert cloud.rows("network", "list", who="ben") == []
    assert "disallowed by policy" in cloud.refused("network", "create", "t1-r", who="rita")
    own = ("--network-type", "gre", "--minimum", "1", "--maximum", "2", "x")
    assert "disallowed by policy" in cloud.refused(*RANGE, "create", *own, who="anna")
    assert "anna@Default" in deployment.logged()


def test_a_token_is_refused_once_it_is_revoked(deployment: Cloud) -> None:
    token = str(deployment.cloud.value("token", "issue", who="anna")["id"])
    assert deployment.status(token) == 200
    deployment.cloud.auth["bearer"] = {
        "OS_AUTH_TYPE": "admin_token",
        "OS_ENDPOINT": deployment.cloud.url,
        "OS_TOKEN": token,
    }
    assert deployment.cloud.run("network", "list", who="bearer").returncode == 0
    deployment.cloud.output("token", "revoke", token, who="anna")
    lab.wait_until(lambda: deployment.status(token) == 401, "the expiry of the cached answer")
    assert "401" in deployment.cloud.refused("network", "list", who="bearer")
    assert token not in deployment.logged()


def test_a_token_is_refused_once_it_is_expired(deployment: Cloud) -> None:
    port = ports.free()
    deployment.keystone.start(port, expiration=15)
    token = deployment.keystone.login("anna", "tenant-1", port=port)
    assert deployment.status(token) == 200
    machines.until(lambda: deployment.status(token) == 401, "the end of the token")
    deployment.keystone.kill(port)


def test_requests_without_a_token_or_a_role_are_refused(deployment: Cloud) -> None:
    assert [deployment.status(token) for token in ("", "nonsense", "gAAAAA" + "x" * 180)] == [401, 401, 401]
    service = deployment.keystone.login("gantry", "service", password=deployment.password_file.read_text().strip())
    assert deployment.status(service) == 403


def test_a_new_password_of_the_account_takes_hold_without_a_restart(deployment: Cloud) -> None:
    token = deployment.keystone.login("anna", "tenant-1")
    assert deployment.status(token) == 200
    deployment.keystone.set_password("gantry", "another-secret")
    machines.until(lambda: deployment.status(token) == 503, "the account's token to be rejected")
    deployment.password_file.write_text("another-secret")
    machines.until(lambda: deployment.status(token) == 200, "a login with the new password")
    assert not any(word in deployment.logged() for word in (token, "another-secret", server.ACCOUNT_PASSWORD))


async def test_a_keystone_with_an_untrusted_certificate_gets_no_password(deployment: Cloud) -> None:
    account = keystone.Account("gantry", "service", "default", str(deployment.password_file))
    address, trust = keystone.Address.parse(deployment.keystone.url), security.service_client_context("")
    service = keystone.Service(real.RealRuntime(), address, account, tls=trust)
    with pytest.raises(errors.BusyError, match="certificate verify failed"):
        await service.look_up("anything")
    await service.close()


def test_without_keystone_all_tokens_are_refused_until_it_answers_again(deployment: Cloud) -> None:
    token = deployment.keystone.login("anna", "tenant-1")
    deployment.keystone.kill(deployment.keystone.port)
    assert deployment.status(token) == 503
    deployment.keystone.start()
    machines.until(lambda: deployment.status(token) == 200, "Keystone to be asked again")
