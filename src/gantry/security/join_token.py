"""The join token: what an administrator copies from a machine that is to become a node."""

import msgspec


class JoinToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token that an administrator copies from a new node to the master: a secret and the node's certificate."""

    secret: str
    certificate: str

    def encode(self) -> str:
        """Return the token as one line of JSON, without a newline."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, line: str) -> "JoinToken":
        """Decode a token; raises ValueError with the problem."""
        try:
            return msgspec.json.decode(line, type=cls)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not a join token: {error}") from None
