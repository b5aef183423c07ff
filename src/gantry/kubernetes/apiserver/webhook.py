"""The admission endpoint: the rules of ``claims.admission`` for an API server that has not got them built in.

Who calls it: ``daemons.webhook`` listens with it, beside the controllers. The API server sends each object that is to
be created or updated (``AdmissionReview`` of admission.k8s.io/v1, POST /validate) and refuses it with the Status that
is answered, which is what the embedded server would have said. What the rules ask of other objects is in the
controllers' index, a moment old. There is nothing to fill in: the one default is in the definitions.

Invariant: a review that can be read is answered with its UID, whatever its object is.
"""

from collections.abc import Callable

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.kubernetes.api import definitions, ipam, meta, schema
from gantry.kubernetes.apiserver import status_errors
from gantry.kubernetes.claims import admission, cache
from gantry.runtime import interface

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
    """What is answered to reviews; fits ``http.Application``. ``is_ready`` tells whether all has been listed."""

    id_header = ("Audit-Id", "")

    def __init__(self, seen: cache.Index, *, is_ready: Callable[[], bool]) -> None:
        self._index = seen
        self._is_ready = is_ready

    async def answer(self, raw: interface.HttpRequest, trace: http.Trace) -> interface.HttpResponse:
        """Answer a review; StatusError for what is none."""
        if raw.path.partition("?")[0] != PATH:
            raise status_errors.StatusError(404, f"reviews are answered at {PATH}")
        if raw.method != "POST":
            raise status_errors.StatusError(405, f"a review is sent by POST, not by {raw.method}")
        asked = _request(raw.body)
        body = {"apiVersion": API_VERSION, "kind": KIND, "response": self._response(asked)}
        return interface.HttpResponse(200, _ENCODE(body))

    def failure(self, error: http.Failure, trace: http.Trace) -> interface.HttpResponse:
        """Return a failure as a Status."""
        return interface.HttpResponse(error.status, _ENCODE(status_errors.body(error)))

    def _response(self, asked: _Request) -> _Response:
        if asked.operation not in ("CREATE", "UPDATE") or asked.sub_resource:
            return _Response(asked.uid, allowed=True)
        try:
            return _Response(asked.uid, allowed=True, warnings=self._warnings(asked))
        except status_errors.StatusError as error:
            return _Response(asked.uid, allowed=False, status=status_errors.body(error))

    def _warnings(self, asked: _Request) -> list[str]:
        """Return what may be a mistake of an object that is allowed; StatusError says why it is not."""
        definition = definitions.by_kind(asked.kind.group, asked.kind.kind)
        if definition is None:
            named = f"{asked.kind.kind}.{asked.kind.group}"
            raise status_errors.bad(f"no rules for {named} are known here: take it out of the webhook's configuration")
        try:
            new = meta.decode(bytes(asked.new), definition.resource)
            old = meta.decode(bytes(asked.old), definition.resource) if asked.operation == "UPDATE" else None
        except errors.InvalidError as error:
            raise status_errors.unreadable(error) from None
        if isinstance(new, ipam.IPPool) and not self._is_ready():
            raise status_errors.StatusError(503, "the addresses in use are still being listed; try again in a moment")
        find = self._index
        causes = admission.review(new, old, in_use=find.addresses_in, claim_of=find.claim)
        if causes:
            raise status_errors.invalid(definition, new.metadata.name, causes)
        if isinstance(new, ipam.IPPool) and not (isinstance(old, ipam.IPPool) and old.spec == new.spec):
            return admission.warnings(new, find.pools_in(new.metadata.namespace))
        return []


def _request(body: bytes) -> _Request:
    """Return what a review asks; StatusError 400."""
    try:
        review = _REVIEW.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise status_errors.bad(f"this is no {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        given = f"{review.kind or 'an object'} of {review.api_version or 'no version'}"
        raise status_errors.bad(f"a {KIND} of {API_VERSION} is expected, not {given}")
    if review.request is None:
        raise status_errors.bad(f"the {KIND} has no request")
    return review.request
