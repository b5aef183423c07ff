"""``certs/member.json``: which node of which cluster a machine is. Pure.

The node daemon writes it when the machine joins; a machine without the file ``certs/node.pem`` belongs to no cluster,
whatever else is left.
"""

import msgspec

from gantry import errors


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A node's identity in its cluster; ``masters`` are the keys of the master candidates when it joined."""

    cluster: str
    node: str
    uuid: str
    address: str
    masters: tuple[str, ...] = ()


def encode(member: Member) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(member)


def decode(content: bytes) -> Member:
    """Return the identity in a file; ConfigurationError if it is damaged."""
    try:
        return msgspec.json.decode(content, type=Member)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(
            f"certs/member.json, which says which node this machine is, is damaged: {error}",
            hint="remove the folder certs, restart gantry-noded, and run gnt-node add --readd NODE on the master",
        ) from None


def path(certificates: str) -> str:
    """Return the path of the file in a machine's folder of certificates."""
    return f"{certificates}/member.json"
