"""Runs the commands that it receives, as root: inside a node of the storage tests, which only the test can reach.

One connection, one command: a line of JSON with ``arguments`` and ``timeout`` goes in, one with ``code`` and ``output``
comes out.
"""

import json
import socketserver
import subprocess

PORT = 7000


class Command(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        request = json.loads(self.rfile.readline())
        try:
            done = subprocess.run(
                request["arguments"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=request["timeout"],
                check=False,
            )
            answer = {"code": done.returncode, "output": done.stdout.decode(errors="replace")}
        except (OSError, subprocess.TimeoutExpired) as error:
            answer = {"code": -1, "output": repr(error)}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    Server(("", PORT), Command).serve_forever()
