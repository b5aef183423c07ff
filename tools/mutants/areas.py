"""The parts of the product that are mutated, and the tests that may notice."""

AREAS = ("address", "state", "jobs", "ipam", "security", "doors", "runtime")
"""The packages below ``src/gantry``."""

LEFT_OUT = (
    "src/gantry/ipam/neutron",
    "src/gantry/runtime/real/processes.py",
    "src/gantry/runtime/real/tracking.py",
)
"""What runs in neutron-server alone, whose tests need Neutron's libraries; and what signals processes by their numbers:

a faulty copy of it would end other processes of the machine.
"""

FOLDERS = tuple(f"src/gantry/{area}" for area in AREAS)

TESTS = (
    *(f"tests/{area}" for area in AREAS),
    "tests/conformance",
    "tests/daemons",
    "tests/golden",
    "tests/mastership",
    "tests/node/membership",
    "tests/operations",
    "tests/rpc",
    "tests/sim",
)
"""The tests that are traced: those of the areas, those that use them in their own process, and the pages."""
