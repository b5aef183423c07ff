"""Kubeconfig: address and credentials of an API server, from a kubeconfig file or from inside a pod.

``daemons.kube`` calls it once at the start. A kubeconfig may have certificates and keys as files or inline, a token or
a token file, or a user name and password; ``exec`` credential plugins are not supported. ``client`` reads a token file
again periodically, because a pod's token expires within an hour.
"""

import base64
import binascii
import os
import ssl
from urllib import parse

import msgspec

from gantry import errors, security
from gantry.runtime import interface

SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Directory in a pod with its token, the CA certificate of the API server and the namespace."""


class Access(msgspec.Struct, frozen=True):
    """Address and credentials of an API server; ``prefix`` precedes each path. Certificates and keys are PEM."""

    host: str
    port: int
    prefix: str = ""
    is_tls: bool = True
    is_checked: bool = True
    authority: str = ""
    certificate: str = ""
    key: str = ""
    token: str = ""
    token_file: str = ""
    password: str = ""
    namespace: str = "default"


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    pass


class _Cluster(_Kebab, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(_Kebab, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: object = None
    auth_provider: object = None


class _Context(_Kebab, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context


class _Config(_Kebab, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


def from_kubeconfig(runtime: interface.Runtime, path: str, *, context: str = "") -> Access:
    """Return the access of a kubeconfig context, by default the current one; ConfigurationError."""
    config = _read_kubeconfig(runtime, path)
    name = context or config.current_context
    selected = next((entry.context for entry in config.contexts if entry.name == name), None)
    if selected is None:
        available = ", ".join(entry.name for entry in config.contexts) or "none"
        raise errors.ConfigurationError(f"{path} has no context '{name}'", hint=f"available contexts: {available}")
    cluster = next((cluster.cluster for cluster in config.clusters if cluster.name == selected.cluster), None)
    if cluster is None:
        raise errors.ConfigurationError(f"{path} has no cluster '{selected.cluster}', to which context '{name}' refers")
    user = next((entry.user for entry in config.users if entry.name == selected.user), _User())
    _check_supported(path, cluster, user)
    folder = os.path.dirname(path)
    credentials = {
        "authority": _pem(runtime, folder, cluster.certificate_authority, cluster.certificate_authority_data),
        "certificate": _pem(runtime, folder, user.client_certificate, user.client_certificate_data),
        "key": _pem(runtime, folder, user.client_key, user.client_key_data),
    }
    return msgspec.structs.replace(
        _parse_server(cluster.server),
        is_checked=not cluster.insecure_skip_tls_verify,
        token=user.token,
        token_file=os.path.join(folder, user.token_file) if user.token_file else "",
        password=f"{user.username}:{user.password}" if user.username else "",
        namespace=selected.namespace or "default",
        **credentials,
    )


def in_cluster(runtime: interface.Runtime, *, host: str, port: str) -> Access:
    """Return the access of a pod, from environment variables and mounted files; ConfigurationError outside of a pod."""
    if not host or not port.isdecimal():
        raise errors.ConfigurationError(
            "not running in a pod: KUBERNETES_SERVICE_HOST is not set", hint="pass a file with --kubeconfig"
        )
    return Access(
        host=host,
        port=int(port),
        authority=_read_text(runtime, f"{SERVICE_ACCOUNT_FOLDER}/ca.crt"),
        token_file=f"{SERVICE_ACCOUNT_FOLDER}/token",
        namespace=_read_text(runtime, f"{SERVICE_ACCOUNT_FOLDER}/namespace").strip(),
    )


async def tls(runtime: interface.Runtime, access: Access, *, folder: str) -> ssl.SSLContext | None:
    """Return the TLS context of an access, None for plain HTTP; ConfigurationError for unusable certificates.

    The key is written to ``folder`` while it is loaded, because the ssl module reads keys only from files.
    """
    if not access.is_tls:
        return None
    path = f"{folder}/kube-client-{runtime.random.uuid()}.pem" if access.certificate else ""
    try:
        if path:
            await runtime.disk.make_directory(folder)
            pair = f"{access.certificate}\n{access.key}".encode()
            await runtime.disk.write(path, pair, mode=0o600, sync=False)
        return security.outside_client_context(
            authority=access.authority, certificate=path, is_checked=access.is_checked
        )
    except (OSError, ValueError) as error:
        hint = f"check that {folder} is a writable directory" if path else ""
        message = f"the certificates for {access.host} cannot be used: {error}"
        raise errors.ConfigurationError(message, hint=hint) from None
    finally:
        if path and runtime.disk.exists(path):
            await runtime.disk.remove(path)


def _read_kubeconfig(runtime: interface.Runtime, path: str) -> _Config:
    try:
        return msgspec.yaml.decode(_read_text(runtime, path).encode(), type=_Config)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise errors.ConfigurationError(f"{path} is not a valid kubeconfig: {error}") from None


def _read_text(runtime: interface.Runtime, path: str) -> str:
    try:
        return runtime.disk.read(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(f"{path} cannot be read: {error}") from None


def _check_supported(path: str, cluster: _Cluster, user: _User) -> None:
    for name, value in (
        ("exec", user.exec),
        ("auth-provider", user.auth_provider),
        ("tls-server-name", cluster.tls_server_name),
        ("proxy-url", cluster.proxy_url),
    ):
        if value:
            raise errors.ConfigurationError(
                f"{path} uses {name}, which is not supported", hint="use a token or a client certificate"
            )


def _pem(runtime: interface.Runtime, folder: str, name: str, data: str) -> str:
    """Return inline data, or the content of a file relative to the kubeconfig."""
    if not data:
        return _read_text(runtime, os.path.join(folder, name)) if name else ""
    try:
        return base64.b64decode(data, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(f"a certificate or key of the kubeconfig is not base64: {error}") from None


def _parse_server(server: str) -> Access:
    """Return host, port and path of a server URL."""
    url = parse.urlsplit(server)
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        port = 0
    if url.scheme not in ("http", "https") or not url.hostname or not port:
        raise errors.ConfigurationError(f"'{server}' is not a valid API server URL")
    return Access(host=url.hostname, port=port, prefix=url.path.rstrip("/"), is_tls=url.scheme == "https")
