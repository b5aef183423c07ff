"""Certificates for tests."""

from gantry import security


def master_context(certificate: str, key: str, *, authority: bytes) -> security.MemberContext:
    """Return the TLS context of a master with a certificate and a key, both file names; it accepts any node's key."""
    context = security.member_context(authority)
    context.load_cert_chain(certificate, key)
    return context
