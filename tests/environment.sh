#!/bin/sh
# usage: environment.sh DIR PYTHON CONSTRAINTS REQUIREMENT...
#
# Makes a virtual environment in DIR with other people's programs that the tests need, for the interpreter PYTHON; the
# file CONSTRAINTS names the exact versions of everything in it.
set -eu

[ $# -ge 4 ] || { echo "usage: environment.sh DIR PYTHON CONSTRAINTS REQUIREMENT..." >&2; exit 1; }
made=$1 python=$2 constraints=$3 work=$1.work
shift 3

rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"$python" -m venv "$work"
"$work/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$constraints" "$@"
"$work/bin/python" -m compileall -q "$work/lib" || true
mv "$work" "$made"
