"""Where pytest starts: the plugin that records which promises the tests keep."""

pytest_plugins = ("tools.promise_plugin",)
