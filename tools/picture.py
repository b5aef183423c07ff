"""The picture of a terminal in README.md: ``make picture`` types commands on the demonstration and draws the output.

The demonstration must be up (``make demo``). Its guest and network are those of the picture, so that a reader who
repeats the commands sees the same.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tools.stages import ROOT

PICTURE = ROOT / "docs/_static/terminal.svg"
COLUMNS = 120
COMMANDS = (
    "gnt-node list -o name,role,mtotal,mfree,pinst_cnt",
    "gnt-instance add -t file --disk 0:size=64M -o busybox -B memory=128 --net 0:ip0=demo4,ip1=demo6,network=demo"
    " -n node3 web2.example",
    "gnt-instance list -o name,pnode,status,nic.ips",
    "gnt-instance move -f -n node1 web2.example",
    "gnt-network map demo",
)
LAST = "gnt-instance remove -f --shutdown-timeout 0 web2.example"
"""Takes back what the commands have made; it is not in the picture."""


def printed(command: str) -> str:
    """Run a command on the first node, on a terminal, and return what it prints, with colours."""
    read_end, terminal = pty.openpty()
    with subprocess.Popen(
        [ROOT / "demo/demo.sh", "gnt", "bash", "-c", f"stty cols {COLUMNS}; {command}"],
        stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT, env={**os.environ, "TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        os.close(terminal)
        output = bytearray()
        while True:
            try:
                data = os.read(read_end, 4096)
            except OSError:  # the other end is closed
                break
            output += data
        os.close(read_end)
    if process.returncode:
        sys.exit(f"{command}: exit code {process.returncode}\n{output.decode(errors='replace')}")
    # What a progress line has overwritten is not there any more.
    return re.sub(r"[^\n]*\r(?!\n)(\x1b\[K)?", "", output.decode(errors="replace").replace("\r\n", "\n"))


def main() -> None:
    """Write the picture."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for command in COMMANDS:
            console.print(Text.assemble(("# ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(printed(command).rstrip("\n")))
            console.print()
        printed(LAST)
        drawing = console.export_svg(title="node1", theme=MONOKAI)
    # The fonts of the reader's machine: the page loads nothing from elsewhere.
    PICTURE.write_text(re.sub(r" *@font-face {.*?}\n", "", drawing, flags=re.DOTALL), encoding="utf-8")
    print(f"{PICTURE} is written")


if __name__ == "__main__":
    main()
