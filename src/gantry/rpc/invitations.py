"""What the master daemon answers about invitations, by LUXI, to the node daemon at whose port a machine knocks.

The methods are ``ProveInvitation`` and ``UseInvitation`` of ``doors.luxi``. A refusal is a value in them: it is the
machine's, not the node daemon's. See explanation/security.md#joining-by-invitation.
"""

import msgspec


class Proof(msgspec.Struct, omit_defaults=True):
    """The answer of ``ProveInvitation``."""

    proof: str = ""
    refusal: tuple[str, list[object]] | None = None


class Progress(msgspec.Struct, omit_defaults=True):
    """The answer of ``UseInvitation``: the job, its status, and its log messages with serial number and time."""

    job: int = 0
    status: str = ""
    log: tuple[tuple[int, int, str], ...] = ()
    refusal: tuple[str, list[object]] | None = None
