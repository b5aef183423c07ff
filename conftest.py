"""Where pytest starts: the plugins, such as those that record which promises the tests keep, and what Hypothesis draws.

A run of the tests draws the same examples each time, so that its answer is about the change and not about chance; the
long tests (GANTRY_FUZZ) look for new ones, except at a landing (GANTRY_SAME). Neither has a limit for the time of an
example: a machine that is busy for a moment would break it, and how fast things are is measured by the benchmarks.
"""

import os

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = (
    "tools.contact_plugin",
    "tools.promise_plugin",
    "tools.figure_plugin",
    "tools.selection_plugin",
    "tools.order_plugin",
)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new", unhurried)
settings.register_profile("same", unhurried, derandomize=True)
# Mutants (tools/mutants) have to fail, not to be explained.
settings.register_profile("unshrunk", unhurried, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("new" if os.environ.get("GANTRY_FUZZ") and not os.environ.get("GANTRY_SAME") else "same")
