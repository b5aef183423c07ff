#!/bin/sh
# usage: own-environment.sh COMMAND [ARGUMENT...]
#
# Runs a command in an environment of its own, so that nothing that a machine or a user happens to set decides the outcome
# (PYTHONUNBUFFERED, the locale, umask, a user's configuration of git): it has PATH, HOME, LANG, and the settings without
# which this machine cannot download (download-settings.sh).
set -eu
umask 022
# shellcheck disable=SC2046  # a list of words
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="${HOME:-/root}" LANG=C.UTF-8 \
    GIT_CONFIG_GLOBAL=/dev/null $("$(dirname "$0")/download-settings.sh") "$@"
