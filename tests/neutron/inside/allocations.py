"""Allocates addresses of a subnet through Neutron's driver interface, and prints how long each took, as JSON.

Runs in Neutron's environment: ``SUBNET COUNT BEGIN --config-file FILE``. BEGIN is the time at which to begin (seconds
since the epoch), so that several processes begin together. Transactions are repeated as a neutron-server repeats them.
"""

import json
import sys
import time

from neutron.common import config
from neutron.ipam import driver, requests
from neutron_lib import context
from neutron_lib.db import api
from sqlalchemy import event

from neutron import manager

subnet, count, begin, *arguments = sys.argv[1:]
config.register_common_config_options()
config.init(arguments)
manager.init()
statements: list[str] = []


def once(admin: context.Context) -> str:
    with api.CONTEXT_WRITER.using(admin):
        taken = driver.Pool.get_instance(None, admin).get_subnet(subnet).allocate(requests.AnyAddressRequest())
        return str(taken)


allocate = api.retry_db_errors(once)


admin = context.get_admin_context()
with api.CONTEXT_WRITER.using(admin):
    # Connections are made and models loaded before the first is timed.
    driver.Pool.get_instance(None, admin).get_subnet(subnet).get_details()
event.listen(
    api.CONTEXT_WRITER.get_engine(),
    "before_cursor_execute",
    lambda _, __, statement, *___: statements.append(statement),
)
time.sleep(max(0.0, float(begin) - time.time()))
samples, addresses = [], []
for _ in range(int(count)):
    start = time.perf_counter()
    addresses.append(allocate(admin))
    samples.append((time.perf_counter() - start) * 1e3)
print(
    json.dumps(
        {"ms": samples, "addresses": addresses, "end": time.time(), "statements": len(statements) / len(samples)}
    )
)
