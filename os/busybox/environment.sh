# Sourced by the scripts of this OS definition: what they read is the environment, and none of it is trusted.
# shellcheck shell=bash
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
[ "${DEBUG_LEVEL:-0}" = 0 ] || set -x

die() { echo "busybox OS: $*" >&2; exit 1; }

# need NAME: the variable's value, which must be there.
need() {
    [ -n "${!1-}" ] || die "the variable $1 is missing from the environment"
    printf '%s' "${!1}"
}

# need_number NAME: the same, for a count or a size.
need_number() {
    local value
    value=$(need "$1")
    [[ $value =~ ^[0-9]{1,9}$ ]] || die "$1 is '$value', not a number"
    printf '%d' "$((10#$value))"
}

# need_name NAME: the same, for a host name: it is written to files and to the console.
need_name() {
    local value
    value=$(need "$1")
    [[ $value =~ ^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$ ]] || die "$1 is '$value', not a host name"
    printf '%s' "$value"
}

# need_disk NAME: the same, for the path of a file or block device that exists.
need_disk() {
    local value
    value=$(need "$1")
    [ -f "$value" ] || [ -b "$value" ] || die "$1 names '$value', which is no file and no block device"
    printf '%s' "$value"
}

need_tool() {
    command -v "$1" || die "the command $1 is missing on this node: apt-get install $2"
}
