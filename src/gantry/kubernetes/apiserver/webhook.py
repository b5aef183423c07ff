"""Validating admission webhook: the admission rules of claims, for a real API server.

``daemons.webhook`` serves it, beside the controllers. The API server sends each object before a create or update
(``AdmissionReview`` of admission.k8s.io/v1, POST /validate) and rejects it with the returned Status, which is the one
that the embedded API server would answer. Other objects are looked up in the controllers' cache, which may be slightly
stale. There is no mutating webhook: the only default is in the definitions.

Invariant: each readable review is answered with its UID, whatever its object is.
"""

from collections.abc import Callable

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.kubernetes.api import definitions, ipam, meta, schema
from gantry.kubernetes.apiserver import status_errors
from gantry.kubernetes.claims import admission, cache
from gantry.runtime import http_interface

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
PATH = "/validate"

_ENCODE = msgspec.json.Encoder().encode
_NONE = msgspec.Raw(b"null")


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    kind: _Kind
    operation: str
    sub_resource: str = ""
    new: msgspec.Raw = msgspec.field(default=_NONE, name="object")
    old: msgspec.Raw = msgspec.field(default=_NONE, name="oldObject")


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Response(msgspec.Struct, frozen=True, omit_defaults=True):
    uid: str
    allowed: bool
    status: schema.Json | None = None
    warnings: list[str] = []


_REVIEW = msgspec.json.Decoder(_Review)


class Application:
    """Answers reviews; implements ``http.Application``. ``is_ready`` returns whether all kinds have been listed."""

    id_header = ("Audit-Id", "")

    def __init__(self, objects: cache.Cache, *, is_ready: Callable[[], bool]) -> None:
        self._cache = objects
        self._is_ready = is_ready

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        """Return the longest body of a review; API servers call without credentials."""
        return http.BODY_LIMIT

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        """Answer a review; StatusError for any other request."""
        if raw.path.partition("?")[0] != PATH:
            raise status_errors.StatusError(404, f"admission reviews are served at {PATH}")
        if raw.method != "POST":
            raise status_errors.StatusError(405, f"method {raw.method} is not allowed, use POST")
        review_request = _request(raw.body)
        body = {"apiVersion": API_VERSION, "kind": KIND, "response": self._response(review_request)}
        return http_interface.Response(200, _ENCODE(body))

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        """Return a failure as a Status."""
        return http_interface.Response(error.status, _ENCODE(status_errors.body(error)))

    def _response(self, review_request: _Request) -> _Response:
        if review_request.operation not in ("CREATE", "UPDATE") or review_request.sub_resource:
            return _Response(review_request.uid, allowed=True)
        try:
            return _Response(review_request.uid, allowed=True, warnings=self._warnings(review_request))
        except status_errors.StatusError as error:
            return _Response(review_request.uid, allowed=False, status=status_errors.body(error))

    def _warnings(self, review_request: _Request) -> list[str]:
        """Return the warnings about an allowed object; StatusError if it is rejected."""
        definition = definitions.by_kind(review_request.kind.group, review_request.kind.kind)
        if definition is None:
            kind = f"{review_request.kind.kind}.{review_request.kind.group}"
            raise status_errors.bad(f"no admission rules for {kind}: remove it from the ValidatingWebhookConfiguration")
        try:
            new = meta.decode(bytes(review_request.new), definition.resource)
            old = (
                meta.decode(bytes(review_request.old), definition.resource)
                if review_request.operation == "UPDATE"
                else None
            )
        except errors.InvalidError as error:
            raise status_errors.unreadable(error) from None
        if isinstance(new, ipam.IPPool) and not self._is_ready():
            raise status_errors.StatusError(503, "the controllers are still listing addresses; try again in a moment")
        objects = self._cache
        causes = admission.review(new, old, in_use=objects.addresses_in, claim_of=objects.claim)
        if causes:
            raise status_errors.invalid(definition, new.metadata.name, causes)
        if isinstance(new, ipam.IPPool) and not (isinstance(old, ipam.IPPool) and old.spec == new.spec):
            return admission.warnings(new, objects.pools_in(new.metadata.namespace))
        return []


def _request(body: bytes) -> _Request:
    """Return the request of a review; StatusError 400."""
    try:
        review = _REVIEW.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise status_errors.bad(f"not a valid {KIND}: {errors.readable(str(error))}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        received = f"{review.kind or 'an object'} of {review.api_version or 'no version'}"
        raise status_errors.bad(f"expected {KIND} of {API_VERSION}, got {received}")
    if review.request is None:
        raise status_errors.bad(f"the {KIND} has no request")
    return review.request
