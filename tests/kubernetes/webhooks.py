"""The admission webhook on the loopback address: its certificate and its configuration."""

import base64
import time
import uuid
from pathlib import Path

import yaml

from gantry import security
from gantry.kubernetes.api import schema

MANIFEST = Path(__file__).parents[2] / "deploy/kubernetes/admission/webhook.yaml"
ADDRESS = "127.0.0.1"
PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
"""Where the configuration is posted to."""


def certificate(folder: Path, authority: security.Authority | None = None) -> bytes:
    """Write tls.crt and tls.key for the loopback address into a folder, and return the CA certificate in PEM."""
    authority = authority or security.make_authority("webhooks", time.time())
    key, request = security.make_request("webhook")
    issued = security.issue(
        authority, request, uuid=str(uuid.uuid4()), name="webhook", address=ADDRESS, now=time.time()
    )
    (folder / "tls.key").write_bytes(key)
    (folder / "tls.crt").write_bytes(issued)
    return authority.certificates


def configuration(port: int, authority: bytes) -> schema.Json:
    """Return the deployed webhook configuration, changed to the loopback address."""
    manifest: schema.Json = yaml.safe_load(MANIFEST.read_text())
    listed = manifest["webhooks"]
    assert isinstance(listed, list)
    where = {"url": f"https://{ADDRESS}:{port}/validate", "caBundle": base64.b64encode(authority).decode()}
    return {**manifest, "webhooks": [{**hook, "clientConfig": where} for hook in listed]}
