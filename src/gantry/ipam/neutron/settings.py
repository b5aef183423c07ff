"""The section of the driver in neutron.conf, and the database that this section names.

    [DEFAULT]
    ipam_driver = gantry
    [gantry]
    connection = postgresql://gantry@db.example/ipam

Without ``connection`` the tables are in Neutron's own database, and every statement runs in Neutron's transaction.
"""

import functools
import os
import random

from neutron_lib.db import api
from oslo_config import cfg
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from gantry import errors
from gantry.ipam.sql import driver, engines, schema

GROUP = "gantry"
OPTIONS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="Database of the IPAM driver's tables, the same on every server: postgresql://USER@HOST/DATABASE or "
        "sqlite:////PATH. If not set, the tables are in Neutron's own database, which must be PostgreSQL or SQLite.",
    )
]
ENGINES = ("postgresql", "sqlite")

cfg.CONF.register_opts(OPTIONS, GROUP)


def own() -> driver.Driver | None:
    """Return the driver over tables in a separate database, None if they are in Neutron's database."""
    url: str | None = cfg.CONF[GROUP].connection
    return _own(url, os.getpid()) if url else None


def within(session: Session) -> driver.Driver:
    """Return the driver on a session's connection to Neutron's database, in the session's transaction."""
    return _prepared(os.getpid()).on(_borrowed(session.connection()))


# Connections do not survive a fork, so each process has its own. Two threads may create them at the same time.
@functools.cache
def _own(url: str, process: int) -> driver.Driver:
    database = engines.open_database(url)
    schema.prepare(database)
    return driver.Driver(database, below=random.randrange)


@functools.cache
def _prepared(process: int) -> driver.Driver:
    """Return a driver, which each caller uses on the connection of its own transaction (``on``)."""
    neutron = api.CONTEXT_WRITER.get_engine()
    if neutron.dialect.name not in ENGINES:
        message = f"the IPAM driver does not support Neutron's database, which is {neutron.dialect.name}"
        raise errors.ConfigurationError(
            message, hint=f"set connection, to a PostgreSQL or SQLite database, in section [{GROUP}] of neutron.conf"
        )
    with neutron.begin() as connection:
        borrowed = _borrowed(connection)
        schema.prepare(borrowed)
        return driver.Driver(borrowed, below=random.randrange)


def _borrowed(connection: Connection) -> engines.Borrowed:
    return engines.Borrowed(connection.connection.driver_connection)
