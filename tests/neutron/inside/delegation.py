"""Gives a subnet the prefix that was delegated to it; its API has no call for that. Runs in Neutron's environment."""

import sys

from neutron.common import config
from neutron_lib import context
from neutron_lib.plugins import directory

from neutron import manager

subnet, prefix, *arguments = sys.argv[1:]
config.register_common_config_options()
config.init(arguments)
manager.init()
changed = directory.get_plugin().update_subnet(context.get_admin_context(), subnet, {"subnet": {"cidr": prefix}})
print(changed["cidr"])
