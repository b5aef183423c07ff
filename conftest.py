"""Where pytest starts: the plugin that records which promises the tests keep, and what Hypothesis draws.

A run of the tests draws the same examples each time, so that its answer is about the change and not about chance; the
long tests (GANTRY_FUZZ) look for new ones.
"""

import os

from hypothesis import settings

pytest_plugins = ("tools.promise_plugin", "tools.figure_plugin")

settings.register_profile("same", derandomize=True)
if not os.environ.get("GANTRY_FUZZ"):
    settings.load_profile("same")
