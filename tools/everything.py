"""All that can be tested, in stages: ``make test-all``, an hour or more, before a change is called complete.

    python3 -m tools.everything                     all stages
    python3 -m tools.everything real bench          these only; others that ran on this commit stay in the table

A stage that fails does not end the run; only a stage that needs its product is left out. After each stage
``build/test-all.md`` has the table: the commit, the machine, and each stage with its time, its numbers of tests by
outcome, and why tests were skipped. ``build/stages`` keeps what each stage printed.

It is run by Debian's Python before the virtual environment exists, so it imports the standard library only.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.stages import ROOT, Stage, minutes

PAGE = ROOT / "build/test-all.md"
RECORD = ROOT / "build/test-all.json"

REPORT = "TIMES=--durations=30 -rs"
"""The slowest tests, and the reasons of those that were skipped."""


@dataclass(frozen=True)
class Part:
    """A stage: targets of ``make``, what it is for, and the stages whose products it needs."""

    name: str
    targets: tuple[str, ...]
    purpose: str
    needs: tuple[str, ...] = ()


PARTS = (
    Part("gate", ("test",), "checks, unit tests, a short round of each real part"),
    Part("slow", ("test-slow", REPORT), "tests that take long or need real time"),
    Part(
        "real", ("test-real", REPORT), "virtual machines, namespaces, LVM, DRBD, PostgreSQL, neutron-server, Keystone"
    ),
    Part("kube-server", ("kube-server",), "compiles a Kubernetes API server, once"),
    Part("kube", ("test-kube", REPORT), "the Kubernetes API server", ("kube-server",)),
    Part("simulate", ("simulate", "SEEDS=0-499"), "500 simulated clusters"),
    Part("coverage", ("simulate-coverage",), "which lines of the operations the simulation executes"),
    Part("long", ("test-landing",), "20 kills of a master, a cut cable, fuzzers, 10,000 messages to each server"),
    Part("packages", ("packages",), "builds the Debian packages"),
    Part("install", ("test-install", REPORT), "installs the packages on machines with systemd", ("packages",)),
    Part("upgrade", ("test-upgrade", REPORT), "upgrades machines to a later version and back", ("packages",)),
    Part("images", ("images", "test-images"), "builds and starts the container images", ("packages",)),
    Part("clean", ("test-clean",), "the demonstration and the gate in a clean Debian 12"),
    Part("bench", ("bench",), "the benchmarks and their limits"),
    Part("promises", ("promises",), "counts the promises that the stages above keep"),
)

COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
SKIP = re.compile(r"^SKIPPED \[(\d+)\] \S+: (.*)$")


@dataclass
class Outcome:
    """What became of a stage."""

    status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    skips: dict[str, int] = field(default_factory=dict)
    last_line: str = ""

    @classmethod
    def of(cls, status: int, seconds: float, lines: Sequence[str]) -> "Outcome":
        """Read the numbers of tests and the reasons of skips from what pytest printed."""
        counts: Counter[str] = Counter()
        skips: Counter[str] = Counter()
        for line in lines:
            if re.search(r" in [0-9.]+s", line):
                for number, outcome in COUNT.findall(line):
                    counts["failed" if outcome.startswith("error") else outcome] += int(number)
            elif match := SKIP.match(line):
                skips[match[2]] += int(match[1])
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return cls(status, seconds, dict(counts), dict(skips), last)


def machine() -> str:
    """Say what this machine is: its processor, cores and memory, and what tests depend on."""
    cpu = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", cpu, re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    parts = (("AMX", "amx_tile" in cpu), ("/dev/kvm", Path("/dev/kvm").exists()))
    has = ", ".join(f"{'with' if there else 'without'} {part}" for part, there in parts)
    kind = name[1] if name else platform.machine()
    return f"{kind}, {os.cpu_count()} cores, {memory} GiB, Linux {platform.release()}, {has}"


def table(commit: str, where: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return the page."""
    lines = [
        f"# make test-all of {commit}",
        "",
        f"Machine: {where}.",
        "",
        "| stage | what it runs | result | time | passed | failed | skipped |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in PARTS:
        if outcome := outcomes.get(part.name):
            numbers = (str(outcome.counts.get(kind, "")) for kind in ("passed", "failed", "skipped"))
            result = "passed" if outcome.status == 0 else f"**failed** ({outcome.status})"
            lines.append(
                f"| {part.name} | {part.purpose} | {result} | {minutes(outcome.seconds)} | {' | '.join(numbers)} |"
            )
        else:
            lines.append(f"| {part.name} | {part.purpose} | not run | | | | |")
    lines += ["", *(_remarks(outcomes))]
    return "\n".join(lines) + "\n"


def _remarks(outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    for name, outcome in outcomes.items():
        yield from (f"- {name}: {number} skipped: {reason}" for reason, number in sorted(outcome.skips.items()))
        if outcome.status:
            yield f"- {name}: {outcome.last_line}"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _earlier(commit: str) -> dict[str, Outcome]:
    """Return what stages of the same commit gave before."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    stages = record.get("stages", {}) if record.get("commit") == commit else {}
    return {name: Outcome(**values) for name, values in stages.items()}


def main() -> int:
    """Run stages; the exit status is 0 if all that were asked for passed."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="everything", description="Run all that can be tested, in stages.")
    parser.add_argument("stages", nargs="*", choices=[*names, []], help="only these stages (default: all)")
    selected = parser.parse_args().stages or names
    commit, where, begin = _commit(), machine(), time.monotonic()
    outcomes = _earlier(commit)
    for part in (part for part in PARTS if part.name in selected):
        if absent := [name for name in part.needs if name in outcomes and outcomes[name].status]:
            print(f"{part.name:<12} left out, because {', '.join(absent)} failed", flush=True)
            outcomes[part.name] = Outcome(1, 0, last_line=f"left out, because {', '.join(absent)} failed")
            continue
        stage = Stage(ROOT, part.name, ("make", *part.targets))
        status, seconds = stage.run()
        outcomes[part.name] = Outcome.of(status, seconds, stage.lines())
        RECORD.write_text(
            json.dumps({"commit": commit, "stages": {name: asdict(each) for name, each in outcomes.items()}})
        )
        PAGE.write_text(table(commit, where, outcomes))
    failed = [name for name in selected if outcomes[name].status]
    for name in failed:
        Stage(ROOT, name, ()).show()
    print(f"{len(selected) - len(failed)} passed, {len(failed)} failed")
    print(f"after {minutes(time.monotonic() - begin)} minutes; the table is {PAGE.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
