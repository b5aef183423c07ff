"""Errors as Kubernetes Status objects (contracts/kubernetes-api.md#status-objects).

Every error answer of the API server is made here. Reasons and messages are those of Kubernetes: clients distinguish
errors by the reason, users and scripts by the message.
"""

import itertools
from collections.abc import Iterable, Mapping

from gantry import errors
from gantry.doors import http
from gantry.kubernetes.api import definitions, schema

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
MAX_CAUSES = 100
"""Maximum number of causes in an error, and of fields in a warning."""
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(http.RefusedError):
    """An error answer; ``details`` of the Status have the object and the causes by field."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str = "",
        details: schema.Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers=headers)
        self.reason = reason or _REASONS.get(status, "InternalError")
        self.details = details


def body(error: http.Failure) -> schema.Json:
    """Return the Status of an error."""
    if isinstance(error, StatusError):
        reason, details = error.reason, error.details
    else:
        reason, details = _REASONS.get(error.status, "InternalError"), None
    status: schema.Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": reason,
        "code": error.status,
    }
    return {**status, "details": details} if details else status


def title(definition: definitions.Definition) -> str:
    """Return the name of a collection in messages: ``ippools.ipam.metal3.io``."""
    return f"{definition.plural}.{definition.group}" if definition.group else definition.plural


def _details(definition: definitions.Definition, name: str) -> schema.Json:
    return {"name": name, "group": definition.group, "kind": definition.plural}


def bad(message: str) -> StatusError:
    """Return the error for an invalid request: 400."""
    return StatusError(400, message)


def no_resource() -> StatusError:
    """Return the error for an unknown path: 404."""
    return StatusError(404, "the server could not find the requested resource", details={})


def missing(definition: definitions.Definition, name: str) -> StatusError:
    """Return the error for an object that does not exist: 404."""
    return StatusError(404, f'{title(definition)} "{name}" not found', details=_details(definition, name))


def exists(definition: definitions.Definition, name: str, *, is_deleting: bool) -> StatusError:
    """Return the error for a name that exists already: 409."""
    before = "object is being deleted: " if is_deleting else ""
    message = f'{before}{title(definition)} "{name}" already exists'
    return StatusError(409, message, reason="AlreadyExists", details=_details(definition, name))


def conflict(definition: definitions.Definition, name: str, why: str = MODIFIED) -> StatusError:
    """Return the error for a write based on another state of the object: 409."""
    message = f'Operation cannot be fulfilled on {title(definition)} "{name}": {why}'
    return StatusError(409, message, details=_details(definition, name))


def invalid(definition: definitions.Definition, name: str, causes: Iterable[schema.Cause]) -> StatusError:
    """Return the error for invalid fields, with the first ``MAX_CAUSES`` causes: 422."""
    first_causes = list(itertools.islice(causes, MAX_CAUSES))
    summary = ", ".join(map(str, first_causes))
    kind = f"{definition.kind}.{definition.group}" if definition.group else definition.kind
    message = f'{kind} "{name}" is invalid: {f"[{summary}]" if len(first_causes) > 1 else summary}'
    cause_list = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in first_causes]
    details: schema.Json = {"name": name, "group": definition.group, "kind": definition.kind, "causes": cause_list}
    return StatusError(422, message, details=details)


def forbidden(definition: definitions.Definition, name: str, why: str) -> StatusError:
    """Return the error for a forbidden request: 403."""
    message = f'{title(definition)} "{name}" is forbidden: {why}'
    return StatusError(403, message, details=_details(definition, name))


def expired(why: str) -> StatusError:
    """Return the error for a resource version or continue token that is too old: 410, list again."""
    return StatusError(410, why)


def too_large(what: str, limit: int) -> StatusError:
    """Return the error for too many bytes: 413."""
    return StatusError(413, f"Request entity too large: limit is {limit} bytes for {what}")


def unreadable(error: errors.GantryError) -> StatusError:
    """Return the error for an object that cannot be read: 400."""
    return bad(error.message)
