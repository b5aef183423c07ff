"""Tells again and again whether a guest runs in a QEMU, which it asks by its monitor: inside a node, as root.

    python3 watch.py SOCKET

Each answer is a line: when it was asked, when that was answered (seconds since the epoch), and ``running`` or another
word. A QEMU that is not there yet, or no more, gives none.
"""

import contextlib
import re
import socket
import sys
import time

INTERVAL = 0.05
STATUS = re.compile(rb"VM status: (\w+)")


def status(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(5)
        monitor.connect(path)
        monitor.sendall(b"info status\n")
        output = b""
        while not (match := STATUS.search(output)):
            part = monitor.recv(4096)
            if not part:
                raise ConnectionError
            output += part
    return match[1].decode()


if __name__ == "__main__":
    while True:
        with contextlib.suppress(OSError):
            sent = time.time()
            guest_status = status(sys.argv[1])
            print(sent, time.time(), guest_status, flush=True)
        time.sleep(INTERVAL)
