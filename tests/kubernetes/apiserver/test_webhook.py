"""The admission webhook: the rules of the embedded API server for another API server."""

import json

import pytest
from tests.kubernetes.claims import server

from gantry.doors import http
from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.apiserver import webhook
from gantry.kubernetes.claims import cache
from gantry.runtime import http_interface

ALLOWED: schema.Json = {"uid": "u-1", "allowed": True}


class Endpoint:
    """A webhook over a cache with objects."""

    def __init__(self, *seen: schema.Json) -> None:
        self.index = cache.Cache()
        self.is_ready = True
        for item in seen:
            self.index.put(server.struct(item))
        self.application = webhook.Application(self.index, is_ready=lambda: self.is_ready)

    async def post(self, body: bytes, *, path: str = "/validate", method: str = "POST") -> tuple[int, schema.Json]:
        """Return status and body of an answer or an error."""
        request = http_interface.Request(method, path, body, {"content-type": "application/json"})
        trace = http.Trace("t")
        try:
            answer = await self.application.answer(request, trace)
        except http.RefusedError as error:
            answer = self.application.failure(error, trace)
        review: schema.Json = json.loads(answer.body)
        return answer.status, review

    async def review(self, new: schema.Json | None, old: schema.Json | None = None, **more: object) -> schema.Json:
        """Review a create, or an update if ``old`` is given; return the response."""
        body_sent = new or old or {}
        group, _, version = str(body_sent.get("apiVersion")).rpartition("/")
        question = {
            "uid": "u-1",
            "kind": {"group": group, "version": version, "kind": body_sent.get("kind")},
            "operation": "UPDATE" if old else "CREATE",
            "object": new,
            "oldObject": old,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **more,
        }
        status, answer = await self.post(json.dumps(reviewed(question)).encode())
        assert (status, answer["apiVersion"], answer["kind"]) == (200, "admission.k8s.io/v1", "AdmissionReview")
        response = answer["response"]
        assert isinstance(response, dict)
        assert response["uid"] == "u-1"
        return response


def reviewed(request: object) -> schema.Json:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def refusal(response: schema.Json) -> tuple[object, object, str, list[str]]:
    """Return code, reason, message and fields of a rejection."""
    assert response["allowed"] is False
    status = response["status"]
    assert isinstance(status, dict)
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    causes = status.get("details", {}).get("causes", [])
    return status["code"], status["reason"], status["message"], [cause["field"] for cause in causes]


async def test_a_good_object_is_allowed_and_a_bad_one_is_refused_as_the_embedded_server_does() -> None:
    endpoint = Endpoint()
    assert await endpoint.review(server.pool()) == ALLOWED
    code, reason, message, fields = refusal(await endpoint.review(server.pool(pools=[{"prefix": 24}])))
    assert (code, reason, fields) == (422, "Invalid", ["spec.pools[0]"])
    assert message == (
        'IPPool.ipam.metal3.io "pool-1" is invalid: spec.pools[0]: Invalid value: '
        "pool entry must specify at least one of start, end, or subnet"
    )
    assert refusal(await endpoint.review(server.claim("c", of="")))[3] == ["spec.pool.name"]


async def test_an_update_is_held_against_the_old_object() -> None:
    endpoint = Endpoint()
    old = server.claim("c")
    assert await endpoint.review({**old, "metadata": {**server.metadata(old), "labels": {"a": "b"}}}, old) == ALLOWED
    assert refusal(await endpoint.review(server.claim("c", of="other"), old))[3] == ["spec.pool"]


async def test_a_pool_does_not_shrink_under_addresses_that_the_controllers_have_seen() -> None:
    endpoint = Endpoint(server.pool(), server.address("x", "10.0.0.2", claim="c"))
    smaller = server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}])
    assert "is in use by IPClaim" in refusal(await endpoint.review(smaller, server.pool()))[2]
    endpoint.index.remove(meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "x"))
    assert await endpoint.review(smaller, server.pool()) == ALLOWED


async def test_nothing_is_said_of_a_pool_before_all_addresses_are_known() -> None:
    endpoint = Endpoint()
    endpoint.is_ready = False
    code, reason, message, _ = refusal(await endpoint.review(server.pool()))
    assert (code, reason) == (503, "ServiceUnavailable")
    assert "try again" in message
    assert await endpoint.review(server.claim("c")) == ALLOWED


async def test_an_address_of_cluster_api_is_held_against_its_claim() -> None:
    endpoint = Endpoint(server.capi_claim("c"))
    body = server.capi_claim("c")
    ref = {"name": "pool-1", "kind": "IPPool", "apiGroup": ipam.GROUP}
    spec: schema.Json = {"claimRef": {"name": "c"}, "address": "10.0.0.1", "prefix": 24}
    address = {**body, "kind": "IPAddress", "spec": {**spec, "poolRef": ref}}
    assert await endpoint.review(address) == ALLOWED
    other = {**address, "spec": {**spec, "poolRef": {**ref, "name": "pool-2"}}}
    code, _, message, fields = refusal(await endpoint.review(other))
    assert (code, fields) == (422, ["spec.poolRef"])
    assert "IPAddressClaim site-a/c refers to another pool" in message
    older = {**address, "apiVersion": f"{capi.GROUP}/v1beta1", "spec": {**spec, "poolRef": {**ref, "apiGroup": ""}}}
    assert await endpoint.review(older) == ALLOWED


async def test_pools_that_give_out_the_same_are_allowed_with_a_warning() -> None:
    endpoint = Endpoint(server.pool("other"))
    response = await endpoint.review(server.pool())
    warned = response["warnings"]
    assert isinstance(warned, list)
    assert (response["allowed"], len(warned)) == (True, 1)
    assert "ranges overlap with those of IPPool other" in warned[0]
    assert await endpoint.review(server.pool(), server.pool()) == ALLOWED


@pytest.mark.parametrize("more", [{"operation": "DELETE", "object": None}, {"subResource": "status"}])
async def test_what_no_rule_is_about_is_allowed(more: dict[str, object]) -> None:
    bad = server.pool(pools=[{}])
    assert await Endpoint().review(bad, bad, **more) == ALLOWED


async def test_an_unknown_kind_is_refused_and_says_what_to_mend() -> None:
    pod: schema.Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    code, _, message, _ = refusal(await Endpoint().review(pod))
    assert code == 400
    assert "Deployment.apps" in message
    assert "ValidatingWebhookConfiguration" in message


@pytest.mark.parametrize("new", [None, {"spec": 7}, {"metadata": 7}, {"spec": {"pools": [{"start": []}]}}])
async def test_an_object_that_cannot_be_read_is_refused(new: schema.Json | None) -> None:
    new_pool = {**server.pool(), **new} if new else None
    response = await Endpoint().review(new_pool, kind={"group": ipam.GROUP, "version": "v1alpha1", "kind": "IPPool"})
    assert refusal(response)[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (b"", "not a valid AdmissionReview"),
        (b"\xff\xfe", "not a valid AdmissionReview"),
        (b"[" * 100_000, "not a valid AdmissionReview"),
        (b"{}", "expected AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "v1beta1"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "no request"),
        (json.dumps(reviewed({"uid": 7})).encode(), "request.uid"),
    ],
)
async def test_a_body_that_is_no_review_is_answered_with_what_is_wrong(body: bytes, verdict: str) -> None:
    status, answer = await Endpoint().post(body)
    assert (status, answer["kind"]) == (400, "Status")
    assert verdict in str(answer["message"])


async def test_reviews_have_one_path_and_one_method() -> None:
    assert (await Endpoint().post(b"{}", path="/"))[0] == 404
    assert (await Endpoint().post(b"", method="GET"))[0] == 405
    assert (await Endpoint().post(b"{}", path="/validate?timeout=5s"))[0] == 400
