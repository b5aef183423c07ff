"""Where pytest starts: the plugins, such as those that record which promises the tests keep, and what Hypothesis draws.

A run of the tests draws the same examples each time, so that its answer is about the change and not about chance; the
long tests (GANTRY_FUZZ) look for new ones, except at a landing (GANTRY_SAME). Neither has a limit for the time of an
example: a machine that is busy for a moment would break it, and how fast things are is measured by the benchmarks.

Nor does a run depend on what the machine happens to set: this process and the programs that it starts have the usual
umask, locale and time zone, and none of the variables that change what Python, a daemon or a client of a server does.
The workers of pytest-xdist and all programs have one seed for hashes, because the order of a set of strings changes the
story that a seed of the simulation tells.
"""

import os
import time

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = (
    "tools.contact_plugin",
    "tools.garbage_plugin",
    "tools.promise_plugin",
    "tools.figure_plugin",
    "tools.selection_plugin",
    "tools.order_plugin",
)

KEPT = ("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONPYCACHEPREFIX")
UNSET_PREFIXES = ("PYTHON", "PG", "LC_", "KUBE", "WATCHDOG_")
UNSET = (
    *("LANGUAGE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("NOTIFY_SOCKET", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM"),
    *("GANTRY_ROOT", "GANTRY_LOG_FILES"),
)
LOOPBACK = "127.0.0.1,localhost"

os.umask(0o022)
for name in list(os.environ):
    if name in UNSET or (name.startswith(UNSET_PREFIXES) and name not in KEPT):
        del os.environ[name]
os.environ["LANG"], os.environ["TZ"] = "C.UTF-8", "UTC"
time.tzset()
os.environ.setdefault("PYTHONHASHSEED", "0")
# A proxy is for downloads, not for the servers that tests start.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(
    filter(None, [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), LOOPBACK])
)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new", unhurried)
settings.register_profile("same", unhurried, derandomize=True)
# Mutants (tools/mutants) have to fail, not to be explained.
settings.register_profile("unshrunk", unhurried, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("new" if os.environ.get("GANTRY_FUZZ") and not os.environ.get("GANTRY_SAME") else "same")
