# Sourced by the scripts of this OS definition: what they read is the environment, and none of it is trusted.
# shellcheck shell=bash
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
[ "${DEBUG_LEVEL:-0}" = 0 ] || set -x

die() { echo "debootstrap OS: $*" >&2; exit 1; }

# need NAME PATTERN: the variable's value, which must be there and fit the regular expression.
need() {
    [[ ${!1-} =~ ^$2$ ]] || die "the variable $1 is '${!1-}', which is not what this OS can use"
    printf '%s' "${!1}"
}

need_tool() { command -v "$1" >/dev/null || die "the command $1 is missing on this node: apt-get install $2"; }

# words NAME: the words of a variable, one a line; nothing else than what names packages may have.
words() {
    local text=${!1-}
    [[ $text =~ ^[a-z0-9.+,[:space:]-]*$ ]] || die "$1 is '$text', not a list of names"
    tr -s ', \t\n' '\n' <<< "$text" | sed '/^$/d'
}

network=${OSP_NETWORK:-networkd}
case $network in networkd | ifupdown | cloud-init) ;; *) die "the parameter network is '$network', not networkd, ifupdown or cloud-init" ;; esac
