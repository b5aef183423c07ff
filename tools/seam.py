"""The banned-calls check: nothing above ``runtime/`` reaches the world by itself.

``make check`` runs it over ``src/gantry``. Each module's names are followed through its imports to what they stand
for (``from time import time as t`` makes ``t`` mean ``time.time``); every import or use of a name that stands for
clock, randomness, files, sockets or processes is reported with what to use instead. What a room may use all the
same stands in ``ALLOWED``, each line with its reason; of two entries that fit a name the longer one decides.

Names are followed, not values: what hides behind ``getattr`` or was handed over as an argument is not seen.
"""

import ast
import builtins
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parent.parent / "src" / "gantry"

CLOCK = "runtime.clock"
RANDOM = "runtime.random"
DISK = "runtime.disk"
NETWORK = "runtime.network"
PROCESSES = "runtime.processes"
COMPUTE = "runtime.compute, or a task"
SECURITY = "gantry.security"
DATABASES = "gantry.ipam.sql"
TERMINAL = "the commands' own room, cli/"

BANNED = {
    "time": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "asyncio.sleep": CLOCK + ".sleep, or asyncio.timeout",
    "random": RANDOM,
    "secrets": RANDOM + ".token",
    "uuid.uuid1": RANDOM + ".uuid",
    "uuid.uuid4": RANDOM + ".uuid",
    "uuid.getnode": RANDOM,
    "ssl.RAND_bytes": RANDOM + ".token",
    "open": DISK,
    "builtins.open": DISK,
    "io.open": DISK,
    "io.open_code": DISK,
    "io.FileIO": DISK,
    "codecs.open": DISK,
    "pathlib": DISK + " (for names alone: pathlib.PurePosixPath)",
    "shutil": DISK,
    "tempfile": DISK,
    "glob": DISK + ".names",
    "mmap": DISK,
    "fcntl": DISK + ".lock",
    "os": f"{DISK} or {PROCESSES}",
    "posixpath": DISK,
    "socket": NETWORK,
    "socketserver": NETWORK,
    "select": NETWORK,
    "selectors": NETWORK,
    "http.client": NETWORK + ".http_client",
    "http.server": NETWORK + ".serve_http",
    "urllib.request": NETWORK + ".http_client",
    "aiohttp": NETWORK,
    "opentelemetry": "gantry.runtime.traces",
    "asyncio.open_connection": NETWORK,
    "asyncio.open_unix_connection": NETWORK + ".connect_unix",
    "asyncio.start_server": NETWORK,
    "asyncio.start_unix_server": NETWORK + ".serve_unix",
    "subprocess": PROCESSES,
    "asyncio.subprocess": PROCESSES,
    "asyncio.create_subprocess_exec": PROCESSES,
    "asyncio.create_subprocess_shell": PROCESSES,
    "signal": PROCESSES + ".signal",
    "pty": PROCESSES,
    "tty": TERMINAL,
    "termios": TERMINAL,
    "threading": COMPUTE,
    "multiprocessing": COMPUTE,
    "concurrent.futures.thread": COMPUTE,
    "concurrent.futures.process": COMPUTE,
    "concurrent.futures.ThreadPoolExecutor": COMPUTE,
    "concurrent.futures.ProcessPoolExecutor": COMPUTE,
    "asyncio.to_thread": COMPUTE,
    ".run_in_executor": COMPUTE,
    "cryptography": SECURITY,
    "pkcs11": SECURITY,
    ".load_cert_chain": SECURITY,
    ".load_verify_locations": SECURITY,
    "sqlite3": DATABASES,
    "psycopg": DATABASES,
    "gantry.runtime.real": "the Runtime that the daemon hands down",
}
"""Name to what is used instead; a leading dot bans the method on any object."""

PURE = "computes and touches nothing"

ALLOWED = {
    "": {
        "pathlib.Pure*": PURE,
        "os.path.basename": PURE,
        "os.path.commonpath": PURE,
        "os.path.dirname": PURE,
        "os.path.isabs": PURE,
        "os.path.join": PURE,
        "os.path.normpath": PURE,
        "os.path.split": PURE,
        "os.path.splitext": PURE,
        "os.fspath": PURE,
        "os.strerror": PURE,
        "os.PathLike": "a type",
        "signal.SIG*": "the numbers that runtime.processes.signal takes",
        "signal.Signals": "the names of those numbers",
    },
    "security": {
        "cryptography": "issues and reads certificates, and nobody else does",
        "pkcs11": "signs with a key of the authority that is in a token",
        ".load_cert_chain": "a TLS context is made of files by the ssl module alone",
        ".load_verify_locations": "a TLS context is made of files by the ssl module alone",
    },
    "daemons": {
        "os.environ": "settings come from the environment, read once at the start",
        "os.getenv": "settings come from the environment, read once at the start",
        "gantry.runtime.real": "a program is where the real runtime is made",
    },
    "daemons/is_master.py": {
        "open": "reads two small files before each start of a unit, in 30 ms; loading the runtime takes ten times that",
    },
    "sim": {
        "random.Random": "the sources of a simulated world are seeded ones",
        "concurrent.futures.ProcessPoolExecutor": "its program spreads seeds over the processors of the real machine",
        "os.cpu_count": "its program spreads seeds over the processors of the real machine",
    },
    "cli": {
        "time": "shows progress and waits for a job; the commands have no runtime, they start in 30 ms",
        "datetime": "prints times of the calendar",
        "socket": "speaks LUXI to the master, synchronously",
        "select": "watches a console's two ends",
        "os": "environment, terminal size, process replaced by ssh or a console",
        "open": "reads ssconf and the files that options name",
        "subprocess": "starts ssh, a console, the daemons",
        "signal": "Ctrl-C leaves the job running",
        "tty": "a console takes the keys as they are typed",
        "termios": "a console takes the keys as they are typed",
    },
    "ipam/sql": {
        "sqlite3": "also runs in a neutron-server, which has no runtime; the master calls it in threads",
        "psycopg": "also runs in a neutron-server, which has no runtime; the master calls it in threads",
    },
    "ipam/neutron": {
        "os.getpid": "runs in the processes of a neutron-server, which forks them; a connection serves one process",
        "random.randrange": "runs in a neutron-server, which has no runtime: where a worker begins to look",
        "time.sleep": "its command pauses between two looks at the database; it has no runtime",
    },
}
"""Room, or a folder or module in it, to what it may use, with the reason; the one without a name is every room.

A trailing star fits any end.
"""


class Finding(NamedTuple):
    """A name that reaches past the seam."""

    path: Path
    line: int
    name: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: use {self.instead}"


class Rules:
    """The names that a package, or a module in it such as ``cli/main.py``, may use."""

    def __init__(self, module: str) -> None:
        inside = itertools.accumulate(module.split("/"), "{}/{}".format)
        self._allowed = ALLOWED[""] | {name: why for part in inside for name, why in ALLOWED.get(part, {}).items()}

    def instead(self, name: str) -> str:
        """Return what to use instead of ``name``, empty if it is allowed."""
        fitting = [entry for entry in BANNED.keys() | self._allowed.keys() if _fits(entry, name)]
        longest = max(fitting, key=len, default="")
        return "" if longest in self._allowed else BANNED.get(longest, "")

    def leads_on(self, name: str) -> bool:
        """Return whether a name below ``name`` is allowed, so that the import alone is not a finding."""
        return any(entry.startswith(name + ".") for entry in self._allowed)


def _fits(entry: str, name: str) -> bool:
    if entry.endswith("*"):
        return name.startswith(entry[:-1])
    return name == entry or name.startswith(entry + ".")


class Scope(NamedTuple):
    """What the names of a block stand for: a dotted name, or nothing we follow."""

    names: dict[str, str]
    is_class: bool


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Block = Definition | ast.Lambda | ast.Module


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what belongs to a block itself; blocks inside are spelling, not entered."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Block):
            yield from _own_nodes(child)


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield what each alias imports, the name it binds, and what that name stands for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            full = origin if alias.name == "*" else f"{origin}.{alias.name}"
            yield full, alias.asname or alias.name, full
        elif alias.asname:
            yield alias.name, alias.asname, alias.name
        else:
            top = alias.name.partition(".")[0]
            yield alias.name, top, top


def _scope(block: Block) -> Scope:
    """Collect what a block binds; where a name is imported and assigned, the import counts."""
    imported: dict[str, str] = {}
    other: list[str | None] = []
    for node in _own_nodes(block):
        match node:
            case ast.Import() | ast.ImportFrom():
                imported |= {bound: meaning for _, bound, meaning in _targets(node)}
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                other.append(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                other.append(name)
            case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound) | ast.MatchStar(name=bound):
                other.append(bound)
    return Scope({name: "" for name in other if name} | imported, isinstance(block, ast.ClassDef))


class Reader(ast.NodeVisitor):
    """Reads one module from top to bottom and collects its findings."""

    def __init__(self, path: Path, rules: Rules) -> None:
        self.findings: list[Finding] = []
        self._path = path
        self._rules = rules
        self._scopes: list[Scope] = []

    def _report(self, node: ast.stmt | ast.expr, name: str, spelling: str = "") -> None:
        instead = self._rules.instead(name)
        if instead:
            self.findings.append(Finding(self._path, node.lineno, spelling or name, instead))

    def _meaning(self, node: ast.expr) -> str:
        """Return the dotted name that an expression stands for, empty for anything else."""
        if isinstance(node, ast.Attribute):
            base = self._meaning(node.value)
            return f"{base}.{node.attr}" if base else ""
        if not isinstance(node, ast.Name):
            return ""
        for depth, scope in enumerate(reversed(self._scopes)):
            visible = depth == 0 or not scope.is_class
            if visible and node.id in scope.names:
                return scope.names[node.id]
        return node.id if hasattr(builtins, node.id) else ""

    def _enter(self, block: Block, body: Sequence[ast.AST]) -> None:
        """Read ``body`` with the block's names, the rest of the block (defaults, bases) with those around it."""
        for child in ast.iter_child_nodes(block):
            if child not in body:
                self.visit(child)
        self._scopes.append(_scope(block))
        for child in body:
            self.visit(child)
        self._scopes.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._enter(node, node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._enter(node, [node.body])

    def _visit_import(self, node: ast.Import | ast.ImportFrom) -> None:
        everything = any(alias.name == "*" for alias in node.names)
        for name, _, _ in _targets(node):
            if everything or not self._rules.leads_on(name):
                self._report(node, name)

    def visit_Import(self, node: ast.Import) -> None:
        self._visit_import(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._visit_import(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._report(node, self._meaning(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._meaning(node)
        if self._rules.instead(name):
            self._report(node, name)
        else:
            self._report(node, "." + node.attr, ast.unparse(node))
        if not name:
            self.visit(node.value)


def read(path: Path, module: str) -> list[Finding]:
    """Return the findings in a file, by the rules of ``module``, its path in the package."""
    reader = Reader(path, Rules(module))
    reader.visit(ast.parse(path.read_text(), filename=str(path)))
    return reader.findings


def findings(source: Path) -> Iterator[Finding]:
    """Yield the findings in all modules of a package, except those of ``runtime``."""
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).as_posix()
        if not module.startswith("runtime/"):
            yield from read(path, module)


def main() -> int:
    """Print the findings, each on a line."""
    faults = list(findings(SOURCE))
    for finding in faults:
        print(finding._replace(path=finding.path.relative_to(SOURCE.parent.parent)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
