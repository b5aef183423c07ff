"""Types a command into a guest's serial console until it prints a text; runs where the socket is, with any Python 3.

usage: ask.py SOCKET COMMAND TEXT SECONDS. It prints what the guest said, and fails when the text did not come.
"""

import contextlib
import socket
import sys
import time

TRY = 5.0


def main() -> int:
    path, command, text, timeout = sys.argv[1:]
    limit, output = time.monotonic() + float(timeout), ""
    with socket.socket(socket.AF_UNIX) as console:
        console.connect(path)
        console.settimeout(0.5)
        while text not in output and time.monotonic() < limit:
            console.sendall(f"\n{command}\n".encode())
            again = time.monotonic() + TRY
            while text not in output and time.monotonic() < again:
                with contextlib.suppress(TimeoutError):
                    output += console.recv(4096).decode(errors="replace")
    print(output)
    return text not in output


if __name__ == "__main__":
    sys.exit(main())
