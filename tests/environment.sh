#!/bin/sh
# usage: environment.sh DIR CONSTRAINTS REQUIREMENT...
#
# Makes a virtual environment in DIR with other people's programs that the tests need; the file CONSTRAINTS names the
# exact versions of everything in it.
set -eu

[ $# -ge 3 ] || { echo "usage: environment.sh DIR CONSTRAINTS REQUIREMENT..." >&2; exit 1; }
made=$1 constraints=$2 work=$1.work
shift 2

rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$work"
"$work/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$constraints" "$@"
"$work/bin/python" -m compileall -q "$work/lib" || true
mv "$work" "$made"
