"""What other processes do in the tests of races: allocate as fast as they can, or stop in the middle."""

import random
import sqlite3
import sys
import time

import psycopg

from gantry import errors
from gantry.ipam.sql import driver, engines, requests


def fill(url: str, subnet: str) -> tuple[list[str], int]:
    """Allocate until there is no room; return the addresses, and how many races were lost."""
    ipam = driver.Driver(engines.open_database(url), below=random.randrange)
    taken = []
    while True:
        try:
            taken.append(ipam.allocate(subnet, requests.AnyAddress()))
        except errors.NoRoomError:
            return taken, ipam.lost_races


def stop_before_the_commit(url: str, subnet: str) -> None:
    """Allocate an address, say which, and neither commit nor continue."""
    connection = connect(url)
    ipam = driver.Driver(engines.Borrowed(connection), below=random.randrange)
    print(ipam.allocate(subnet, requests.NextAddress()), flush=True)
    time.sleep(600)


def connect(url: str) -> engines.Connection:
    """Return a connection of the caller's own, whose transactions are the caller's too."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite://"), timeout=60)
    return psycopg.connect(url)


if __name__ == "__main__":
    stop_before_the_commit(*sys.argv[1:])
