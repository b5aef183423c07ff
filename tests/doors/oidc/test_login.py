"""Log-ins by OpenID Connect: the way to the provider and back, and each way in which somebody lies on it."""

import asyncio
import base64
import dataclasses
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from urllib import parse

import msgspec
import pytest
from joserfc import jwk, jws, jwt, registry
from tests.doors.oidc import fake_provider
from tests.doors.oidc.fake_provider import FakeProvider, SignOnCluster

from gantry.daemons import remote
from gantry.doors.http import sessions
from gantry.doors.rapi.oidc import claims, id_token, login, provider
from gantry.runtime import http_interface
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"


@pytest.fixture
def sign_on(lab: cluster.SimulatedCluster) -> Iterator[SignOnCluster]:
    built, port = fake_provider.build(lab)
    yield built
    lab.run(port.close())


def test_a_log_in_leads_to_the_provider_and_back_to_the_page(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    assert browser.read("/2/session/methods") == {
        "provider": {"name": "Example", "login": f"{fake_provider.PUBLIC_URL}/2/session/oidc"},
        "failure": "",
    }
    answer = browser.come_back(sign_on.provider.authorize(browser.begin("#/instances/web1?x=1")))
    assert (answer.status, answer.headers["Location"]) == (303, "/console/#/instances/web1?x=1")
    about = browser.read("/2/session")
    assert (about["user"], about["may"], about["rules"]) == ("oidc:anna", "read", [])
    assert browser.ask("GET", "/2/query/node?fields=name").status == 200
    assert browser.ask("GET", "/2/instances/vm1/info").status == 200


def test_the_cookies_of_a_log_in_are_for_this_host_alone_and_out_of_reach_for_scripts(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    begun = browser.ask("GET", "/2/session/oidc")
    assert begun.headers["Set-Cookie"].split("; ")[1:] == [
        "Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=600", "Secure",
    ]  # fmt: skip
    ended = browser.come_back(sign_on.provider.authorize(begun.headers["Location"]))
    assert ended.headers["Set-Cookie"].split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    assert set(browser.cookies) == {"__Host-gantry-login", "__Host-gantry-session"}
    for answer in (begun, ended):
        assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")


@pytest.mark.parametrize(
    "page",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "#/a\r\nx: y",
        "javascript:alert(1)",
        "#/" + "a" * 600,
    ],
)
def test_a_log_in_leads_to_pages_of_the_console_alone(sign_on: SignOnCluster, page: str) -> None:
    browser = sign_on.browser()
    answer = browser.come_back(sign_on.provider.authorize(browser.begin(page)))
    assert answer.headers["Location"] == "/console/"
    assert browser.user() == "oidc:anna"


def test_an_answer_counts_only_in_the_browser_that_asked(sign_on: SignOnCluster) -> None:
    attacker, victim = sign_on.browser(), sign_on.browser()
    query = sign_on.provider.authorize(attacker.begin())
    for _ in range(2):
        assert victim.come_back(query).headers["Location"] == "/console/"
        assert "this browser has not begun this log-in" in str(victim.read("/2/session/methods")["failure"])
        assert victim.user() is None
        victim.begin()
    assert fake_provider.TOKEN not in sign_on.provider.requests
    attacker.come_back(query)
    assert attacker.user() == "oidc:anna"


def test_a_failure_is_shown_once(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    assert "Set-Cookie" not in browser.ask("GET", "/2/session/methods").headers
    browser.come_back({"code": "x", "state": "y"})
    answer = browser.ask("GET", "/2/session/methods")
    assert "this browser has not begun this log-in" in json.loads(answer.body)["failure"]
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    answer = browser.ask("GET", "/2/session/methods")
    assert (json.loads(answer.body)["failure"], "Set-Cookie" in answer.headers) == ("", False)


def test_an_answer_counts_once_even_if_the_provider_accepts_its_code_again(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    query = sign_on.provider.authorize(browser.begin())
    grant = sign_on.provider.grants[query["code"]]
    browser.come_back(query)
    sign_on.provider.grants[query["code"]] = grant
    del browser.cookies["__Host-gantry-session"]
    browser.come_back(query)
    assert browser.user() is None
    assert browser.read("/2/session/methods")["failure"] == "this log-in has been used; log in again"


def test_a_cookie_of_another_process_or_with_other_content_begins_nothing(sign_on: SignOnCluster) -> None:
    browser, other = sign_on.browser(), sign_on.browser()
    other.server = remote.server(
        sign_on.lab.master,
        cluster.FOLDERS,
        provider=fake_provider.site_provider(sign_on.lab, claims.Mapped(), fake_provider.SECRET_FILE),
    )
    query = sign_on.provider.authorize(browser.begin("#/jobs"))
    good = browser.cookies["__Host-gantry-login"]
    other.cookies["__Host-gantry-login"] = good
    other.come_back(query)
    assert other.user() is None
    for value in (
        "",
        ".",
        good[1:],
        good[:-1],
        good.partition(".")[0] + ".",
        "e30." + good.partition(".")[2],
        "é.\udcff",
    ):
        browser.cookies["__Host-gantry-login"] = value
        browser.come_back(query)
        assert browser.user() is None
    browser.cookies["__Host-gantry-login"] = good
    browser.come_back(query)
    assert browser.user() == "oidc:anna"


def test_a_log_in_has_to_end_within_its_time(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    query = sign_on.provider.authorize(browser.begin())
    sign_on.wait(login.LOGIN_SECONDS + 1)
    browser.come_back(query)
    assert "took longer than 10 minutes" in str(browser.read("/2/session/methods")["failure"])
    assert browser.user() is None


def _signed(key: jwk.ECKey, **header: object) -> Callable[[dict[str, object]], str]:
    algorithm = str(header["alg"])
    return lambda content: jwt.encode(header, content, key, algorithms=[algorithm])


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _with_a_shared_key(key: bytes, **header: object) -> Callable[[dict[str, object]], str]:
    """Return what signs as a library would refuse to, because the key is a public one."""

    def sign(content: dict[str, object]) -> str:
        text = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(content).encode())}"
        return f"{text}.{_encoded(hmac.digest(key, text.encode(), 'sha256')) if key else ''}"

    return sign


def _unsigned(fake: FakeProvider) -> None:
    fake.sign = _with_a_shared_key(b"", alg="none")


def _with_the_public_key_as_secret(fake: FakeProvider) -> None:
    fake.sign = _with_a_shared_key(fake.key.as_pem(private=False), alg="HS256", kid=fake.key.kid)


def _with_the_client_secret(fake: FakeProvider) -> None:
    fake.sign = _with_a_shared_key(fake_provider.SECRET.encode(), alg="HS256")
    fake.published.append({"kty": "oct", "k": _encoded(fake_provider.SECRET.encode())})


def _with_a_key_of_the_header(fake: FakeProvider) -> None:
    mine = fake_provider.key_pair(None)
    fake.sign = _signed(mine, alg="ES256", jwk=mine.as_dict(private=False), kid="mine")


def _with_another_key_of_the_same_name(fake: FakeProvider) -> None:
    fake.sign = _signed(fake_provider.key_pair(None), alg="ES256", kid=fake.key.kid)


def _with_a_critical_extension(fake: FakeProvider) -> None:
    parts = jws.JWSRegistry({"x": registry.HeaderParameter("x", "str")}, algorithms=["ES256"])
    header = {"alg": "ES256", "kid": fake.key.kid, "crit": ["x"], "x": "y"}
    fake.sign = lambda content: jwt.encode(header, content, fake.key, registry=parts)


def _changed(**more: object) -> Callable[[FakeProvider], None]:
    return lambda fake: fake.token_claims.update(more)


def _changed_time(name: str, seconds: float) -> Callable[[FakeProvider], None]:
    return lambda fake: fake.token_claims.update({name: int(fake.machine.clock.now() + seconds)})


LIES: dict[str, tuple[Callable[[FakeProvider], None], str]] = {
    "no signature": (_unsigned, "the algorithm 'none'"),
    "the public key as a shared secret": (_with_the_public_key_as_secret, "the algorithm 'HS256'"),
    "the client's secret": (_with_the_client_secret, "the algorithm 'HS256'"),
    "a key that the token brings": (_with_a_key_of_the_header, "a key that the OpenID provider does not publish"),
    "another key": (_with_another_key_of_the_same_name, "its signature is wrong"),
    "an extension": (_with_a_critical_extension, "refused"),
    "no token": (lambda fake: setattr(fake, "sign", lambda content: "x.y"), "it is not a signed token"),
    "another nonce": (_changed(nonce="another"), "it belongs to another log-in"),
    "no nonce": (_changed(nonce=None), "'nonce' is missing"),
    "a nonce that is no text": (_changed(nonce="\ud800"), "it belongs to another log-in"),
    "two nonces": (_changed(nonce=["a", "b"]), "it belongs to another log-in"),
    "another audience": (_changed(aud="wiki"), "'aud'"),
    "no audience": (_changed(aud=None), "'aud'"),
    "more audiences": (_changed(aud=["gantry", "wiki"]), "it was issued to another client"),
    "more audiences and another party": (_changed(aud=["gantry", "wiki"], azp="wiki"), "it was issued to another"),
    "another party": (_changed(azp="wiki"), "it was issued to another client"),
    "another issuer": (_changed(iss="http://localhost:5556/other"), "'iss'"),
    "an issuer with a slash": (_changed(iss=fake_provider.ISSUER + "/"), "'iss'"),
    "no issuer": (_changed(iss=None), "'iss'"),
    "no subject": (_changed(sub=None), "'sub'"),
    "an empty subject": (_changed(sub=""), "'sub'"),
    "an old token": (_changed_time("exp", -id_token.LEEWAY_SECONDS - 2), "it has expired"),
    "no end": (_changed(exp=None), "'exp'"),
    "an end that is no time": (_changed(exp="tomorrow"), "'exp'"),
    "a token of the future": (_changed_time("iat", id_token.LEEWAY_SECONDS + 2), "'iat'"),
    "a token that is valid later": (_changed_time("nbf", id_token.LEEWAY_SECONDS + 2), "'nbf'"),
    "a token of long ago": (_changed_time("iat", -id_token.OLDEST_SECONDS - 70), "it was issued too long ago"),
    "no name": (_changed(preferred_username=None), "the claim preferred_username is missing"),
    "a name with a space": (_changed(preferred_username="an na"), "a name has no space"),
    "a name that is no text": (_changed(preferred_username="\ud800"), "a name has no space"),
    "a group that is no text": (_changed(groups=["\ud800"], preferred_username=None), "is missing"),
    "a name with a colon": (_changed(preferred_username="oidc:anna"), "a name has no space and no colon"),
    "a name with a control character": (_changed(preferred_username="anna\x1b"), "a name has no space"),
    "a name that turns its letters around": (_changed(preferred_username="a\u202enna"), "a name has no space"),
    "a long name": (_changed(preferred_username="a" * 251), "at most 250 characters"),
    "groups that are no list": (_changed(groups={"admins": True}), "is not a list of names"),
    "groups that are no names": (_changed(groups=["admins", 7]), "is not a list of names"),
    "too many groups": (_changed(groups=["g"] * 501), "501 groups"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_token_that_is_not_right_begins_no_session(sign_on: SignOnCluster, lie: str) -> None:
    tell, reason = LIES[lie]
    tell(sign_on.provider)
    browser = sign_on.browser()
    assert reason in browser.log_in(sign_on.provider)
    assert browser.user() is None
    assert set(browser.cookies) == {"__Host-gantry-login"}


@pytest.mark.parametrize(
    "change",
    [
        _changed_time("exp", -id_token.LEEWAY_SECONDS + 5),
        _changed_time("iat", id_token.LEEWAY_SECONDS - 5),
        _changed(aud=["gantry"]),
        _changed(aud=["gantry", "wiki"], azp="gantry"),
        _changed(azp="gantry"),
    ],
)
def test_a_token_within_the_leeway_and_for_this_client_logs_in(
    sign_on: SignOnCluster, change: Callable[[FakeProvider], None]
) -> None:
    change(sign_on.provider)
    browser = sign_on.browser()
    assert browser.log_in(sign_on.provider) == ""
    assert browser.user() == "oidc:anna"


def test_a_new_key_is_fetched_but_not_at_will(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    assert browser.log_in(sign_on.provider) == ""
    sign_on.wait(provider.KEYS_INTERVAL_SECONDS)
    sign_on.provider.key = fake_provider.key_pair("two")
    sign_on.provider.published = [sign_on.provider.key.as_dict(private=False)]
    assert sign_on.browser().log_in(sign_on.provider) == ""
    assert sign_on.provider.requests.count(fake_provider.KEYS) == 2
    for number in range(5):
        sign_on.provider.key = fake_provider.key_pair(f"unknown-{number}")
        assert "does not publish" in sign_on.browser().log_in(sign_on.provider)
    assert sign_on.provider.requests.count(fake_provider.KEYS) == 2
    sign_on.wait(provider.KEYS_INTERVAL_SECONDS)
    assert "does not publish" in sign_on.browser().log_in(sign_on.provider)
    assert sign_on.provider.requests.count(fake_provider.KEYS) == 3


def test_a_key_that_the_provider_has_withdrawn_counts_for_an_hour_at_most(sign_on: SignOnCluster) -> None:
    old = sign_on.provider.key
    assert sign_on.browser().log_in(sign_on.provider) == ""
    sign_on.provider.published = [fake_provider.key_pair("two").as_dict(private=False)]
    sign_on.wait(provider.LIFETIME_SECONDS + 1)
    sign_on.provider.key = old
    assert "does not publish" in sign_on.browser().log_in(sign_on.provider)


def test_without_a_key_id_there_has_to_be_one_key_that_fits(sign_on: SignOnCluster) -> None:
    sign_on.provider.key = fake_provider.key_pair(None)
    own = sign_on.provider.key.as_dict(private=False)
    own.pop("kid", None)
    sign_on.provider.sign = _signed(sign_on.provider.key, alg="ES256")
    sign_on.provider.published = [own, jwk.RSAKey.generate_key(2048).as_dict(private=False), {"kty": "PQC"}, {}]
    assert sign_on.browser().log_in(sign_on.provider) == ""
    sign_on.provider.published.append(fake_provider.key_pair("two").as_dict(private=False))
    sign_on.wait(provider.LIFETIME_SECONDS + 1)
    assert "does not publish" in sign_on.browser().log_in(sign_on.provider)


def _redirected(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(302, b"", headers={"Location": request.path})


def _huge(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b'{"issuer": "' + b"x" * provider.ANSWER_BYTES + b'"}')


def _deep(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b"[" * 100_000)


def _binary(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b'{"issuer": "\xff"}')


@pytest.mark.parametrize("path", [fake_provider.DESCRIPTION, fake_provider.TOKEN, fake_provider.KEYS])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_redirected, "the unexpected status 302"),
        (_huge, "the answer has more than 256 KiB"),
        (_deep, "the answer of the OpenID provider is not valid"),
        (_binary, "the answer of the OpenID provider is not valid"),
        (lambda request: http_interface.Response(500, b""), "the unexpected status 500"),
        (lambda request: http_interface.Response(200, b"{}"), "the answer of the OpenID provider is not valid"),
    ],
)
def test_a_provider_that_answers_nonsense_is_an_error_on_the_log_in_page(
    sign_on: SignOnCluster, path: str, fault: Callable[[http_interface.Request], http_interface.Response], reason: str
) -> None:
    sign_on.provider.fault = lambda request: fault(request) if request.path == path else None
    browser = sign_on.browser()
    assert reason in browser.log_in(sign_on.provider)
    assert browser.user() is None
    assert browser.read("/2/session/methods")["failure"] == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"issuer": "http://localhost:5556/other"}, "calls itself 'http://localhost:5556/other'"),
        ({"token_endpoint": "http://192.0.2.9/token"}, "has no TLS"),
        ({"token_endpoint": "https://idp.example/token"}, "has not the scheme of its issuer"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "is not a URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "is not a URL"),
        ({"end_session_endpoint": "http://user@localhost/"}, "is not a URL"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
    ],
)
def test_a_provider_that_describes_another_one_is_not_used(
    sign_on: SignOnCluster, change: dict[str, object], reason: str
) -> None:
    sign_on.provider.description = change
    browser = sign_on.browser()
    assert browser.begin() == "/console/"
    assert reason in str(browser.read("/2/session/methods")["failure"])
    assert "__Host-gantry-login" not in browser.cookies


def test_an_answer_that_names_another_provider_is_refused(sign_on: SignOnCluster) -> None:
    assert "another OpenID provider" in sign_on.browser().log_in(sign_on.provider, iss="https://evil.example")
    assert sign_on.browser().log_in(sign_on.provider, iss=fake_provider.ISSUER) == ""
    sign_on.provider.description = {"authorization_response_iss_parameter_supported": True}
    sign_on.wait(provider.LIFETIME_SECONDS + 1)
    assert "another OpenID provider" in sign_on.browser().log_in(sign_on.provider)
    assert sign_on.browser().log_in(sign_on.provider, iss=fake_provider.ISSUER) == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("access_denied", "the OpenID provider did not let you log in"),
        ("<script>", "refused the log-in without a known reason"),
    ],
)
def test_a_refusal_of_the_provider_has_a_text_of_ours(sign_on: SignOnCluster, error: str, reason: str) -> None:
    browser = sign_on.browser()
    query = {"state": sign_on.provider.authorize(browser.begin())["state"], "error": error, "error_description": "evil"}
    browser.come_back(query)
    assert reason in str(browser.read("/2/session/methods")["failure"])
    assert browser.user() is None


def test_a_code_of_another_log_in_is_refused_by_its_challenge(sign_on: SignOnCluster) -> None:
    browser, other = sign_on.browser(), sign_on.browser()
    code = sign_on.provider.authorize(other.begin())["code"]
    browser.come_back(sign_on.provider.authorize(browser.begin()) | {"code": code})
    assert "refuses the code of the log-in: invalid_grant" in str(browser.read("/2/session/methods")["failure"])
    assert browser.user() is None


@pytest.mark.parametrize("query", ["", "state=", "state=a&state=b", "code=%00", "%ff=%ff", "state=%C3%A9"])
def test_a_callback_out_of_nowhere_is_a_refusal(sign_on: SignOnCluster, query: str) -> None:
    browser = sign_on.browser()
    assert browser.ask("GET", f"/2/session/oidc/callback?{query}").status == 303
    assert browser.user() is None
    assert sign_on.provider.requests == []


def test_a_slow_provider_delays_its_log_ins_alone(sign_on: SignOnCluster) -> None:
    sign_on.lab.run(sign_on.lab.master.disk.write(USERS, b"bob two read\n"))
    sign_on.provider.slow = 3600.0
    clock = sign_on.lab.master.clock

    async def work() -> tuple[float, float, list[str], int]:
        begin = clock.monotonic()
        browsers = [sign_on.browser(f"192.0.2.{number}") for number in range(6)]
        waiting: list[asyncio.Future[http_interface.Response]] = []
        refused: list[str] = []
        for browser in browsers:
            waiting += [asyncio.ensure_future(browser.asking("GET", "/2/session/oidc")) for _ in range(20)]
            await clock.sleep(0.1)
            refused = [task.result().headers["Set-Cookie"] for task in waiting if task.done()]
            if browser is browsers[0]:
                of_first = len(refused)
        logged_in = await sign_on.browser().asking("POST", "/2/session", {"user": "bob", "password": "two"})
        assert logged_in.status == 200
        password_seconds = clock.monotonic() - begin
        await asyncio.gather(*waiting)
        return password_seconds, clock.monotonic() - begin, refused, of_first

    password_seconds, all_seconds, refused, of_first = sign_on.lab.run(work())
    assert password_seconds < 2.0
    assert provider.TIMEOUT_SECONDS <= all_seconds < provider.TIMEOUT_SECONDS + 5.0
    assert of_first == 20 - login.IN_WORK_OF_PEER
    assert len(refused) == 120 - login.IN_WORK
    assert all("too%20many%20log-ins" in cookie for cookie in refused)
    sign_on.lab.run(sign_on.lab.master.disk.remove(USERS))


def test_log_ins_fail_at_once_for_a_while_after_the_provider_did_not_answer(sign_on: SignOnCluster) -> None:
    sign_on.provider.slow = 3600.0
    for _ in range(3):
        browser = sign_on.browser()
        assert browser.begin() == "/console/"
        assert "did not answer within 10 s" in str(browser.read("/2/session/methods")["failure"])
    assert sign_on.provider.requests == [fake_provider.DESCRIPTION]
    sign_on.provider.slow = 0.0
    sign_on.wait(provider.BACK_OFF_SECONDS)
    assert sign_on.browser().log_in(sign_on.provider) == ""


def test_a_provider_that_is_down_is_an_error_on_the_log_in_page(lab: cluster.SimulatedCluster) -> None:
    built, port = fake_provider.build(lab)
    lab.run(port.close())
    browser = built.browser()
    assert browser.begin() == "/console/"
    assert "the OpenID provider at localhost port 5556 cannot be used" in str(
        browser.read("/2/session/methods")["failure"]
    )


def test_the_log_in_page_does_not_say_what_is_wrong_with_files_of_the_machine(
    sign_on: SignOnCluster, caplog: pytest.LogCaptureFixture
) -> None:
    sign_on.lab.run(sign_on.lab.master.disk.write(fake_provider.SECRET_FILE, b"x", mode=0o644))
    assert sign_on.browser().log_in(sign_on.provider) == (
        "the remote API is not set up right for the OpenID provider; its log says why"
    )
    assert f"run chmod 600 {fake_provider.SECRET_FILE}" in caplog.text


def test_a_cookie_with_bytes_that_are_no_text_is_no_reason(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    browser.cookies["__Host-gantry-login-failure"] = "\udcff%ff"
    assert browser.read("/2/session/methods")["failure"] == "?\ufffd"


def test_the_client_proves_itself_as_the_provider_wants_it(
    sign_on: SignOnCluster, lab: cluster.SimulatedCluster
) -> None:
    sign_on.provider.secret = "another"
    assert "invalid_client" in sign_on.browser().log_in(sign_on.provider)
    sign_on.provider.description = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    sign_on.wait(provider.LIFETIME_SECONDS + 1)
    assert sign_on.browser().log_in(sign_on.provider) == ""


def test_a_public_client_has_no_secret(lab: cluster.SimulatedCluster) -> None:
    built, port = fake_provider.build(lab, secret_file="")
    assert built.browser().log_in(built.provider) == ""
    lab.run(port.close())


def test_claims_that_the_token_lacks_come_from_the_provider_and_are_those_of_the_same_user(
    sign_on: SignOnCluster,
) -> None:
    sign_on.provider.token_claims = {"preferred_username": None, "groups": None}
    sign_on.provider.user_info = {"sub": "248289761001", "preferred_username": "bert", "groups": ["admins"]}
    browser = sign_on.browser()
    assert browser.log_in(sign_on.provider) == ""
    assert browser.read("/2/session")["may"] == "write"
    assert browser.user() == "oidc:bert"
    sign_on.provider.user_info["sub"] = "somebody else"
    assert "the claims of another user" in sign_on.browser().log_in(sign_on.provider)
    sign_on.provider.token_claims = {}
    sign_on.provider.user_info = {"sub": "somebody else", "preferred_username": "root"}
    assert sign_on.browser().log_in(sign_on.provider) == ""


def test_a_log_out_leads_to_the_provider_that_offers_one(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    browser.log_in(sign_on.provider)
    assert browser.ask("DELETE", "/2/session").body == b"null\n"
    sign_on.provider.description = {"end_session_endpoint": "http://localhost:5556/realm/end?tenant=1"}
    sign_on.wait(provider.LIFETIME_SECONDS + 1)
    browser.log_in(sign_on.provider)
    cookie = browser.cookies["__Host-gantry-session"]
    address = parse.urlsplit(json.loads(browser.ask("DELETE", "/2/session").body)["logout"])
    query = dict(parse.parse_qsl(address.query))
    assert (address.path, query["tenant"], query["client_id"]) == ("/realm/end", "1", fake_provider.CLIENT_ID)
    assert query["post_logout_redirect_uri"] == f"{fake_provider.PUBLIC_URL}/console/"
    assert query["id_token_hint"].count(".") == 2
    browser.cookies["__Host-gantry-session"] = cookie
    assert browser.user() is None


def test_the_log_out_of_a_password_does_not_leave_the_console(sign_on: SignOnCluster) -> None:
    sign_on.provider.description = {"end_session_endpoint": "http://localhost:5556/realm/end"}
    sign_on.browser().log_in(sign_on.provider)
    sign_on.lab.run(sign_on.lab.master.disk.write(USERS, b"bob two read\n"))
    browser = sign_on.browser()
    begun = browser.ask("POST", "/2/session", {"user": "bob", "password": "two"})
    browser.token = json.loads(begun.body)["csrf"]
    assert browser.ask("DELETE", "/2/session").body == b"null\n"
    sign_on.lab.run(sign_on.lab.master.disk.remove(USERS))


def test_a_session_of_a_provider_ends_like_any_other(sign_on: SignOnCluster) -> None:
    browser = sign_on.browser()
    browser.log_in(sign_on.provider)
    sign_on.wait(sessions.IDLE_SECONDS - 1)
    assert browser.user() == "oidc:anna"
    sign_on.wait(sessions.IDLE_SECONDS + 1)
    assert browser.user() is None
    browser.log_in(sign_on.provider)
    for _ in range(round(sessions.LONGEST_SECONDS / sessions.IDLE_SECONDS) * 2):
        assert browser.user() == "oidc:anna"
        sign_on.wait(sessions.IDLE_SECONDS / 2)
    sign_on.wait(1)
    assert browser.user() is None


def test_a_change_of_the_session_needs_its_token(sign_on: SignOnCluster) -> None:
    sign_on.provider.token_claims = {"groups": ["admins"]}
    browser = sign_on.browser()
    browser.log_in(sign_on.provider)
    assert browser.ask("PUT", "/2/tags?tag=x&dry-run=1").status == 200
    browser.token = ""
    assert browser.ask("PUT", "/2/tags?tag=x&dry-run=1").status == 403


def test_no_password_logs_in_as_a_user_of_the_provider(sign_on: SignOnCluster) -> None:
    text = b"oidc:anna {HA1}x write\noidc:anna:$2y$10$abcdefghijklmnopqrstuv write\noidc:anna\n"
    sign_on.lab.run(sign_on.lab.master.disk.write(USERS, text))
    for name, password in (("oidc:anna", ""), ("oidc", "anna"), ("oidc:anna", "{HA1}x")):
        assert sign_on.browser().ask("POST", "/2/session", {"user": name, "password": password}).status == 401
    sign_on.lab.run(sign_on.lab.master.disk.remove(USERS))


def test_no_code_and_no_secret_is_logged(sign_on: SignOnCluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        browser = sign_on.browser()
        query = sign_on.provider.authorize(browser.begin())
        sign_on.provider.fault = lambda request: (
            http_interface.Response(500, b"") if request.path == fake_provider.TOKEN else None
        )
        browser.come_back(query)
        sign_on.provider.fault = None
        browser.log_in(sign_on.provider)
    assert browser.user() == "oidc:anna"
    assert "user oidc:anna has logged in by OpenID Connect, as subject '248289761001'" in caplog.text
    assert '"GET /2/session/oidc/callback HTTP/1.1" 303' in caplog.text
    for word in (query["code"], query["state"], fake_provider.SECRET, "eyJ", *browser.cookies.values()):
        assert word not in caplog.text


def test_without_a_provider_there_is_no_such_log_in(sign_on: SignOnCluster) -> None:
    browser = dataclasses.replace(sign_on.browser(), server=remote.server(sign_on.lab.master, cluster.FOLDERS))
    assert browser.read("/2/session/methods") == {"provider": None, "failure": ""}
    for path in ("/2/session/oidc", "/2/session/oidc/callback"):
        answer = browser.ask("GET", path)
        assert (answer.status, msgspec.json.decode(answer.body)["message"]) == (404, "Not Found")


def test_of_used_log_ins_the_newest_are_remembered(sign_on: SignOnCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "MAX_USED", 2)
    queries = []
    for _ in range(3):
        browser = sign_on.browser()
        queries.append((browser, sign_on.provider.authorize(browser.begin())))
        browser.come_back(queries[-1][1])
        assert browser.user() == "oidc:anna"
    for index, (browser, query) in reversed([*enumerate(queries)]):
        browser.come_back(query)
        is_remembered = browser.read("/2/session/methods")["failure"] == "this log-in has been used; log in again"
        assert is_remembered is (index > 0)
