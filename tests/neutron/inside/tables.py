"""Makes Neutron's tables from its models; runs in Neutron's environment, with ``--config-file``."""

import sys

from neutron.common import config
from neutron.db.migration.models import head
from neutron_lib.db import api

config.register_common_config_options()
config.init(sys.argv[1:])
head.get_metadata().create_all(api.CONTEXT_WRITER.get_engine())
