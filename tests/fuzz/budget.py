"""How long fuzzers and state machines look: a little in each run, GANTRY_FUZZ examples in `make test-long`.

How many messages the servers get is set apart from it (`doors`).
"""

import os

from hypothesis import HealthCheck, settings

LONG = bool(os.environ.get("GANTRY_FUZZ"))

EXAMPLES = int(os.environ.get("GANTRY_FUZZ") or 25)


def examples(number: int) -> int:
    """Return how many examples a state machine draws: ``number`` in long runs, a fifth of them in short ones."""
    return max(number, EXAMPLES) if LONG else number // 5


quick = settings(max_examples=20 * EXAMPLES, deadline=None)
"""For what takes microseconds."""

slow = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For what takes milliseconds."""

folders = settings(max_examples=max(150, EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For damages of a whole folder, on each of two clusters."""
