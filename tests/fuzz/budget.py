"""How long the fuzzers look: GANTRY_FUZZ says how many examples, a few where it is not set."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("GANTRY_FUZZ") or 100)

quick = settings(max_examples=20 * EXAMPLES, deadline=None)
"""For what takes microseconds."""

slow = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For what takes milliseconds."""

folders = settings(max_examples=max(150, EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For damages of a whole folder, on each of two clusters."""
