"""Webhooks: receivers to which gantry-rapi sends the events of the cluster, and how far each has got.

See explanation/decisions/0072-webhooks.md. The URL and the secrets are in fields whose names say so: exports and the
audit blank each field that has ``secret`` in its name (``state.files.export``).
"""

from gantry.model import base

ROTATION_SECONDS = 86_400.0
"""How long requests are signed with the previous secret too, after a new one was made."""


class Webhook(base.Entity, frozen=True):
    """A receiver of events, by its name.

    ``origin`` is the URL without its path, which may be a secret. ``secret`` is the key of the signatures, in base64;
    ``previous_secret`` counts until ``previous_secret_end``, in seconds since the epoch. ``events`` are the events that
    it gets, as KIND or KIND.CHANGE; all if there are none. ``authorities`` are PEM, empty for those of the system.
    ``tests`` counts the tests that an administrator has made.
    """

    origin: str
    secret_url: str
    secret: str
    previous_secret: str = ""
    previous_secret_end: float = 0.0
    events: tuple[str, ...] = ()
    authorities: str = ""
    enabled: bool = True
    tests: int = 0

    def selects(self, kind: str, key: str, what: str) -> bool:
        """Return whether the receiver gets a change; it always gets those of itself."""
        if not self.events or (kind, key) == ("webhook", self.uuid):
            return True
        return kind in self.events or f"{kind}.{what}" in self.events

    def secrets(self, now: float) -> tuple[str, ...]:
        """Return the secrets that count at a time."""
        has_previous = self.previous_secret and now < self.previous_secret_end
        return (self.secret, self.previous_secret) if has_previous else (self.secret,)


class Position(base.Entity, frozen=True):
    """How far a receiver has got: it has all events up to ``serial``. The UUID is that of the webhook.

    While its receiver fails, ``failure`` says why, and ``waiting_since`` is the time of the first event that it has not
    accepted, in seconds since the epoch.
    """

    serial: int = 0
    failure: str = ""
    waiting_since: float | None = None
