"""The embedded API server: the Kubernetes API for sites without a Kubernetes cluster (contracts/kubernetes-api.md).

    application = server.Application(runtime, folder, tokens=...)
    await application.open() ; http.Server(runtime, application).open(...) ; ... ; await application.close()

It is an application of ``doors.http``::

    resources       kinds served, and paths     discovery           API groups and OpenAPI
    content_types   Accept headers, tables      openapi_v2          OpenAPI 2 for old kubectl
    read            get, list, watch            watch_cache         objects and events of a collection
    write           create ... delete           bodies              bodies of writes, patches
    selectors       label and field selectors   protobuf            bodies of newer kubectl
    managed_fields  server-side apply           metadata            metadata set by the server
    validation      schema, defaults, rules     admission           admission rules
    store           the objects, in one file    garbage_collector   owner references, namespaces
    pipe_server     requests of the controllers status_errors       errors as Status objects

Each token of the token list gives full access; there are no roles.
"""

import asyncio
import hmac
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.doors.http import warnings
from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import (
    admission,
    bodies,
    content_types,
    discovery,
    garbage_collector,
    read,
    resources,
    status_errors,
    store,
    validation,
    write,
)
from gantry.runtime import http_interface, interface

MAX_BODY_BYTES = 3 << 20
"""Maximum bytes of a request body, as in other API servers."""

_HEALTH = ("healthz", "livez", "readyz")
_APPLY = "application/apply-patch+yaml"
_FIELD_VALIDATIONS = (validation.STRICT, validation.WARN, validation.IGNORE)

Parameters = Mapping[str, list[str]]


class Application:
    """Answers API requests; ``tokens`` maps tokens to user names, None disables authentication."""

    id_header = ("Audit-Id", "")

    def __init__(self, runtime: interface.Runtime, folder: str, *, tokens: Mapping[str, str] | None = None) -> None:
        self._clock = runtime.clock
        self._users = None if tokens is None else {token.encode(): name for token, name in tokens.items()}
        self._store = store.Store(runtime, folder)
        rules = admission.Admission(self._store.current)
        self._writer = write.Writer(runtime, self._store, rules)
        self._reader = read.Reader(runtime, self._store)
        self._collector = garbage_collector.GarbageCollector(runtime, self._store, self._writer, rules)

    async def open(self) -> None:
        """Load the stored objects and start; BusyError, ConfigurationError."""
        await self._store.open()
        await self._collector.open()

    async def close(self) -> None:
        """Store pending changes and stop."""
        await self._collector.close()
        await self._store.close()

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        """Return the longest body of a request; StatusError without a valid token."""
        self._authenticate(raw, trace)
        return MAX_BODY_BYTES

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        """Answer a request; StatusError."""
        parts, query = http.split(raw.path)
        if parts[:1] and parts[0] in _HEALTH:
            return self._health()
        self._authenticate(raw, trace)
        if len(raw.body) > MAX_BODY_BYTES:
            raise status_errors.too_large("the body of a request", MAX_BODY_BYTES)
        accept = raw.headers.get("accept", "")
        document = discovery.answer(parts, accept) if raw.method in ("GET", "HEAD") else None
        if document:
            return http_interface.Response(200, *document)
        match parts:
            case ("api", version, *rest):
                target = resources.resolve("", version, tuple(rest))
            case ("apis", group, version, *rest) if group:
                target = resources.resolve(group, version, tuple(rest))
            case _:
                raise status_errors.no_resource()
        if raw.method in ("GET", "HEAD"):
            return self._read(raw, target, query)
        return await self._write(raw, target, query)

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        """Return a failure as a Status."""
        body = status_errors.body(error)
        return http_interface.Response(error.status, content_types.ENCODE(body) + b"\n")

    def _health(self) -> http_interface.Response:
        if self._store.is_writable:
            return http_interface.Response(200, b"ok", "text/plain")
        return http_interface.Response(500, b"the object store has failed; restart the server", "text/plain")

    def _authenticate(self, raw: http_interface.Request, trace: http.Trace) -> None:
        if self._users is None:
            trace.known = True
            return
        scheme, _, credentials = raw.headers.get("authorization", "").partition(" ")
        presented = credentials.strip().encode()
        for token, name in self._users.items():
            if scheme.lower() == "bearer" and hmac.compare_digest(token, presented):
                trace.user, trace.known = name, True
                return
        raise status_errors.StatusError(401, "Unauthorized", headers={"WWW-Authenticate": "Bearer"})

    def _view(self, raw: http_interface.Request, target: resources.Target, query: Parameters) -> content_types.View:
        accepted = content_types.negotiate(raw.headers.get("accept", ""))
        include = _text(query, "includeObject") or "Metadata"
        return content_types.View(target, accepted, now=self._clock.now(), include=include)

    def _read(
        self, raw: http_interface.Request, target: resources.Target, query: Parameters
    ) -> http_interface.Response:
        view = self._view(raw, target, query)
        parameters = _query(query)
        if _flag(query, "watch"):
            pieces = self._reader.watch(target, parameters, view)
            return http_interface.Response(200, b"", "application/json", pieces=pieces)
        body = (
            view.encode_object(self._reader.get_object(target).body)
            if target.name
            else self._reader.list_objects(target, parameters, view)
        )
        return http_interface.Response(200, body, view.content_type)

    async def _write(
        self, raw: http_interface.Request, target: resources.Target, query: Parameters
    ) -> http_interface.Response:
        options = _options(raw, query)
        match raw.method, bool(target.name):
            case "POST", False:
                body = await self._writer.create(
                    target, content_types.json_object(content_types.decode_body(raw)), options
                )
                return self._write_response(raw, target, query, body=body, options=options, status=HTTPStatus.CREATED)
            case "PUT", True:
                body = await self._writer.update(
                    target, content_types.json_object(content_types.decode_body(raw)), options
                )
                return self._write_response(raw, target, query, body=body, options=options)
            case "PATCH", True:
                return await self._patch(raw, target, query, options=options)
            case "DELETE", _ if not target.subresource:
                return await self._delete(raw, target, query, options=options)
        raise status_errors.StatusError(405, "the server does not allow this method on the requested resource")

    async def _patch(
        self, raw: http_interface.Request, target: resources.Target, query: Parameters, *, options: write.Options
    ) -> http_interface.Response:
        kind = raw.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == _APPLY:
            if not _text(query, "fieldManager"):
                cause = schema.Cause(schema.REQUIRED, "fieldManager", "Required value: is required for apply patch")
                raise _options_invalid("PatchOptions", cause)
            config = content_types.json_object(content_types.decode_yaml(raw.body))
            body, is_new = await self._writer.apply(target, config, options)
            status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
            return self._write_response(raw, target, query, body=body, options=options, status=status)
        change = bodies.patch_of(kind, content_types.decode_body(raw) if kind.endswith("json") else None, target)
        body = await self._writer.change(target, change, options)
        return self._write_response(raw, target, query, body=body, options=options)

    async def _delete(
        self, raw: http_interface.Request, target: resources.Target, query: Parameters, *, options: write.Options
    ) -> http_interface.Response:
        deletion = _deletion(raw, query)
        dry_run = options.dry_run or bool(deletion.dry_run)
        if not target.name:
            return await self._delete_all(raw, target, query, deletion=deletion, dry_run=dry_run)
        item = self._reader.get_object(target)
        body = await self._writer.delete(target, deletion, dry_run=dry_run)
        if body is not None:
            return self._write_response(raw, target, query, body=body, options=options)
        definition = target.definition
        details = {"name": target.name, "group": definition.group, "kind": definition.plural, "uid": item.uid}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return http_interface.Response(200, content_types.ENCODE(status) + b"\n")

    async def _delete_all(
        self,
        raw: http_interface.Request,
        target: resources.Target,
        query: Parameters,
        *,
        deletion: write.Deletion,
        dry_run: bool,
    ) -> http_interface.Response:
        view = self._view(raw, target, query)
        items = self._reader.select(target, _query(query))
        targets = (msgspec.structs.replace(target, namespace=item.key.namespace, name=item.key.name) for item in items)
        results = await asyncio.gather(
            *(self._writer.delete(target, deletion, dry_run=dry_run) for target in targets), return_exceptions=True
        )
        for error in results:
            if isinstance(error, BaseException) and not _is_absence(error):
                raise error
        return http_interface.Response(200, view.encode_list(items, {}), view.content_type)

    def _write_response(
        self,
        raw: http_interface.Request,
        target: resources.Target,
        query: Parameters,
        *,
        body: bytes,
        options: write.Options,
        status: int = HTTPStatus.OK,
    ) -> http_interface.Response:
        view = self._view(raw, target, query)
        headers = {"Warning": warnings.header("-", options.warnings)} if options.warnings else {}
        return http_interface.Response(status, view.encode_object(body), view.content_type, headers)


def _is_absence(error: BaseException) -> bool:
    return isinstance(error, status_errors.StatusError) and error.status == HTTPStatus.NOT_FOUND


def _text(query: Parameters, name: str) -> str:
    return query.get(name, [""])[0]


def _flag(query: Parameters, name: str) -> bool:
    """Return a flag as Go parses it: present, and neither 0 nor false."""
    return name in query and _text(query, name).lower() not in ("0", "false")


def _query(query: Parameters) -> read.Query:
    return read.Query(
        labels=_text(query, "labelSelector"),
        fields=_text(query, "fieldSelector"),
        version=_text(query, "resourceVersion"),
        match=_text(query, "resourceVersionMatch"),
        limit=read.parse_number(_text(query, "limit"), "limit"),
        token=_text(query, "continue"),
        timeout=read.parse_number(_text(query, "timeoutSeconds"), "timeoutSeconds"),
        bookmarks=_flag(query, "allowWatchBookmarks"),
        initial=_flag(query, "sendInitialEvents"),
    )


def _options(raw: http_interface.Request, query: Parameters) -> write.Options:
    field_validation = _text(query, "fieldValidation") or validation.WARN
    if field_validation not in _FIELD_VALIDATIONS:
        supported = ", ".join(f'"{value}"' for value in _FIELD_VALIDATIONS)
        text = f'Unsupported value: "{field_validation}": supported values: {supported}'
        raise _options_invalid("Options", schema.Cause(schema.UNSUPPORTED, "fieldValidation", text))
    if any(value != "All" for value in query.get("dryRun", [])):
        text = 'Unsupported value: supported values: "All"'
        raise _options_invalid("Options", schema.Cause(schema.UNSUPPORTED, "dryRun", text))
    agent = raw.headers.get("user-agent", "").partition("/")[0]
    return write.Options(
        manager=_text(query, "fieldManager") or agent,
        dry_run="dryRun" in query,
        field_validation=field_validation,
        force=_flag(query, "force"),
    )


def _options_invalid(kind: str, cause: schema.Cause) -> status_errors.StatusError:
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field}]
    details: schema.Json = {"group": "meta.k8s.io", "kind": kind, "causes": causes}
    return status_errors.StatusError(422, f'{kind}.meta.k8s.io "" is invalid: {cause}', details=details)


def _deletion(raw: http_interface.Request, query: Parameters) -> write.Deletion:
    """Return the delete options, from the body and the query."""
    try:
        deletion = msgspec.convert(content_types.decode_body(raw) if raw.body else {}, write.Deletion)
    except msgspec.ValidationError as error:
        raise status_errors.bad(f"invalid DeleteOptions: {errors.readable(str(error))}") from None
    policy = deletion.propagation_policy or _text(query, "propagationPolicy") or None
    if policy not in (None, "Background", "Foreground", "Orphan"):
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan"'
        raise _options_invalid("DeleteOptions", schema.Cause(schema.UNSUPPORTED, "propagationPolicy", text))
    return msgspec.structs.replace(deletion, propagation_policy=policy)
