"""An OpenID provider that does what a test wants, and a browser that logs in by it; in virtual time."""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from urllib import parse

import msgspec
from joserfc import jwk, jws

from gantry.daemons import oidc, remote
from gantry.doors import http
from gantry.doors.http import sessions
from gantry.doors.rapi.oidc import claims, provider
from gantry.model import urls
from gantry.runtime import http_interface, interface
from gantry.sim import cluster

ISSUER = "http://localhost:5556/realm"
PUBLIC_URL = "https://gantry.example:5080"
CALLBACK = f"{PUBLIC_URL}/2/session/oidc/callback"
CLIENT_ID = "gantry"
SECRET = "sesame/open +"
SECRET_FILE = "/oidc-secret"
DESCRIPTION, KEYS, TOKEN, USER_INFO = (
    "/realm/.well-known/openid-configuration",
    "/realm/keys",
    "/realm/token",
    "/realm/me",
)

Fault = Callable[[http_interface.Request], http_interface.Response | None]


def key_pair(key_id: str | None, curve: str = "P-256") -> jwk.ECKey:
    return jwk.ECKey.generate_key(curve, {"kid": key_id} if key_id else None)


@dataclasses.dataclass
class Grant:
    """A log-in that waits for the exchange of its code."""

    challenge: str
    nonce: str


@dataclasses.dataclass
class FakeProvider:
    """A provider on the same machine; what it answers can be changed in each respect."""

    machine: interface.Runtime
    key: jwk.ECKey = dataclasses.field(default_factory=lambda: key_pair("one"))
    published: list[Mapping[str, object]] = dataclasses.field(default_factory=list)
    algorithm: str = "ES256"
    description: dict[str, object] = dataclasses.field(default_factory=dict)
    token_claims: dict[str, object] = dataclasses.field(default_factory=dict)
    """Claims of each ID token, instead of the right ones; None leaves a claim out."""
    user_info: dict[str, object] = dataclasses.field(default_factory=dict)
    secret: str = SECRET
    fault: Fault | None = None
    slow: float = 0.0
    sign: Callable[[dict[str, object]], str] | None = None
    grants: dict[str, Grant] = dataclasses.field(default_factory=dict)
    requests: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.published = [self.key.as_dict(private=False)]

    def authorize(self, address: str) -> dict[str, str]:
        """Log a user in for the address to which the daemon led the browser; return the query of the way back."""
        url = parse.urlsplit(address)
        assert f"{url.scheme}://{url.netloc}{url.path}" == "http://localhost:5556/realm/auth"
        parameters = dict(parse.parse_qsl(url.query))
        assert (parameters["response_type"], parameters["client_id"], parameters["redirect_uri"]) == (
            "code",
            CLIENT_ID,
            CALLBACK,
        )
        assert parameters["code_challenge_method"] == "S256"
        code = f"code-{len(self.grants)}"
        self.grants[code] = Grant(parameters["code_challenge"], parameters["nonce"])
        return {"code": code, "state": parameters["state"]}

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        self.requests.append(request.path)
        await self.machine.clock.sleep(self.slow)
        fault = self.fault(request) if self.fault else None
        if fault:
            return fault
        match request.path:
            case "/realm/.well-known/openid-configuration":
                return _json(self._description())
            case "/realm/keys":
                return _json({"keys": self.published})
            case "/realm/token":
                return self._exchange(request)
            case "/realm/me" if self.user_info and request.headers["authorization"] == "Bearer at-1":
                return _json(self.user_info)
        return http_interface.Response(404, b"{}")

    def _description(self) -> dict[str, object]:
        base = ISSUER
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{base}/auth",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/keys",
            "code_challenge_methods_supported": ["plain", "S256"],
            **({"userinfo_endpoint": f"{base}/me"} if self.user_info else {}),
            **self.description,
        }

    def _exchange(self, request: http_interface.Request) -> http_interface.Response:
        form = dict(parse.parse_qsl(request.body.decode()))
        pair = base64.b64encode(f"{CLIENT_ID}:{parse.quote_plus(self.secret)}".encode()).decode()
        is_client = request.headers.get("authorization") == f"Basic {pair}" or form.get("client_id") == CLIENT_ID
        grant = self.grants.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if not is_client:
            return _json({"error": "invalid_client"}, 401)
        if (
            grant is None
            or grant.challenge != base64.urlsafe_b64encode(digest).decode().rstrip("=")
            or form["redirect_uri"] != CALLBACK
        ):
            return _json({"error": "invalid_grant"}, 400)
        return _json({"id_token": self.id_token(grant.nonce), "access_token": "at-1", "token_type": "Bearer"})

    def id_token(self, nonce: str) -> str:
        now = int(self.machine.clock.now())
        right: dict[str, object] = {
            "iss": ISSUER, "sub": "248289761001", "aud": CLIENT_ID, "exp": now + 300, "iat": now, "nonce": nonce,
            "preferred_username": "anna", "groups": ["staff"],
        }  # fmt: skip
        content = {name: value for name, value in (right | self.token_claims).items() if value is not None}
        if self.sign:
            return self.sign(content)
        header = {"alg": self.algorithm} | ({"kid": self.key.kid} if self.key.kid else {})
        return jws.serialize_compact(header, json.dumps(content), self.key, algorithms=[self.algorithm])


def _json(content: object, status: int = 200) -> http_interface.Response:
    return http_interface.Response(status, msgspec.json.encode(content))


@dataclasses.dataclass
class Browser:
    """A browser that keeps cookies; ``server`` is that of the remote API. ``token`` is the one of its session."""

    lab: cluster.SimulatedCluster
    server: http.Server
    peer: str = "192.0.2.7"
    cookies: dict[str, str] = dataclasses.field(default_factory=dict)
    token: str = ""

    async def asking(self, method: str, path: str, body: object = None) -> http_interface.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"content-type": "application/json", "cookie": cookie, sessions.HEADER: self.token}
        content = b"" if body is None else json.dumps(body).encode()
        headers = {name: text for name, text in headers.items() if text}
        response = await self.server.answer(http_interface.Request(method, path, content, headers, peer=self.peer))
        if "Set-Cookie" in response.headers:
            pair, *attributes = response.headers["Set-Cookie"].split("; ")
            name, _, value = pair.partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in attributes:
                del self.cookies[name]
        return response

    def ask(self, method: str, path: str, body: object = None) -> http_interface.Response:
        return self.lab.run(self.asking(method, path, body))

    def read(self, path: str) -> dict[str, object]:
        return msgspec.json.decode(self.ask("GET", path).body, type=dict[str, object])

    def begin(self, page: str = "") -> str:
        """Press the button; return where the browser is led."""
        answer = self.ask("GET", f"/2/session/oidc?{parse.urlencode({'to': page})}")
        assert (answer.status, answer.body) == (303, b"")
        return answer.headers["Location"]

    def come_back(self, query: Mapping[str, str]) -> http_interface.Response:
        """Follow the provider's way back to the daemon."""
        return self.ask("GET", f"/2/session/oidc/callback?{parse.urlencode(query)}")

    def log_in(self, provider: FakeProvider, page: str = "", **more: str) -> str:
        """Log in; return why that failed, empty if it did not."""
        address = self.begin(page)
        answer = self.come_back(provider.authorize(address) | more) if address.startswith(ISSUER) else None
        if answer and answer.status != 303:
            return f"status {answer.status}"
        if "__Host-gantry-session" in self.cookies:
            self.token = str(self.read("/2/session")["csrf"])
        return str(self.read("/2/session/methods")["failure"])

    def user(self) -> object:
        """Return the name of the user who is logged in, None if nobody is."""
        return self.read("/2/session").get("user")


@dataclasses.dataclass
class SignOnCluster:
    """A cluster whose console has an OpenID provider."""

    lab: cluster.SimulatedCluster
    provider: FakeProvider
    server: http.Server

    def browser(self, peer: str = "192.0.2.7") -> Browser:
        return Browser(self.lab, self.server, peer)

    def wait(self, seconds: float) -> None:
        self.lab.run(self.lab.master.clock.sleep(seconds))


def site_provider(lab: cluster.SimulatedCluster, mapped: claims.Mapped, secret_file: str) -> oidc.SiteProvider:
    issuer, public_url = urls.Url.parse(ISSUER, "issuer"), urls.Url.parse(PUBLIC_URL, "console")
    client = provider.Client(issuer, CLIENT_ID, public_url, secret_file)
    return oidc.SiteProvider(provider.Provider(lab.master, client, tls=None), mapped, "Example")


def build(
    lab: cluster.SimulatedCluster, *, mapped: claims.Mapped | None = None, secret_file: str = SECRET_FILE
) -> tuple[SignOnCluster, interface.Server]:
    """Return a cluster with a provider, and the provider's server, which the caller closes."""
    fake = FakeProvider(lab.master)
    port = lab.run(lab.master.network.serve_http("localhost", 5556, fake.answer, tls=None, body_limit=100_000))
    lab.run(lab.master.disk.write(SECRET_FILE, f"{SECRET}\n".encode(), mode=0o600))
    sign_on = site_provider(lab, mapped or claims.Mapped(admin_group="admins"), secret_file)
    return SignOnCluster(lab, fake, remote.server(lab.master, cluster.FOLDERS, provider=sign_on)), port
