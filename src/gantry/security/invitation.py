"""Invitations: the secret that lets a machine join, and the proof by which the machine recognizes the cluster.

``gnt-node add`` makes the secret, prints it as the token of ``gantry-node join``, and sends the cluster only its hash.
The new machine sends the secret to nobody who has not proven to know that hash *and* to own the key of the connection:

    machine -> node daemon    id of the invitation, a random nonce
    node daemon -> machine    HMAC-SHA256(hash, nonce and digest of the key that the node daemon presents)
    machine -> node daemon    the secret, if the digest is that of the key which the machine sees

So somebody between both, who has another key, gets nothing, even with a certificate of the cluster's authority. Who
knows only the hash cannot join with it. See explanation/security.md#joining-by-invitation.
"""

import hashlib
import hmac

SECRET_BYTES = 24
"""Length of the secret; ``gnt-node add`` makes as many (``cli.programs.node``)."""

NONCE_BYTES = 32


def hash_of(secret: str) -> str:
    """Return what the cluster keeps of a secret: SHA-256, in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(secret_hash: str) -> str:
    """Return the public name of an invitation, which does not reveal the hash."""
    return hashlib.sha256(f"gantry invitation id\n{secret_hash}".encode()).hexdigest()[:32]


def proof(secret_hash: str, nonce: str, key: str) -> str:
    """Return the proof that the owner of a key, whose digest this is, belongs to the cluster that has the hash."""
    return hmac.new(secret_hash.encode(), f"gantry invitation\n{nonce}\n{key}".encode(), "sha256").hexdigest()


def is_equal(first: str, second: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(first.encode(), second.encode())
