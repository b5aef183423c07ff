#!/bin/bash
# usage: net.sh up N PREFIX | net.sh down PREFIX
#
# A laboratory of N nodes on one machine: the network namespaces PREFIX1 to PREFIXN, each with a bridge br0, joined
# by a switch, a bridge in the namespace PREFIXsw.  Nothing outside these namespaces is touched, so laboratories
# with other prefixes live beside this one with the same addresses.
#
#   on br0 of node I    10.99.0.I/24                                the nodes' own traffic
#                       192.0.2.(240+I)/24, 2001:db8::f:I/64        to reach the guests on br0
#   on the switch       192.0.2.1/24                                the guests' gateway
#
# `down` removes the namespaces and with them the devices; processes in them are the caller's to end.
set -euo pipefail

die() { echo "net: $*" >&2; exit 1; }
usage() { die "usage: net.sh up N PREFIX | net.sh down PREFIX"; }

spaces() { ip netns list | awk '{ print $1 }' | grep -xE "$1(sw|[0-9]+)" || true; }

down() {
    local space
    for space in $(spaces "$1"); do ip netns delete "$space"; done
}

up() {
    local count=$1 prefix=$2 switch=${2}sw i
    [[ $count =~ ^([1-9]|1[0-4])$ ]] || die "N is '$count', not a number from 1 to 14"
    [ -z "$(spaces "$prefix")" ] || die "a laboratory $prefix exists: take it down first (net.sh down $prefix)"
    trap 'down "$prefix"' ERR
    ip netns add "$switch"
    for ((i = 1; i <= count; i++)); do
        ip netns add "$prefix$i"
        # Duplicate address detection would hold back the first second of traffic.
        ip netns exec "$prefix$i" sh -c 'echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad'
    done
    # Multicast snooping would hold back neighbour discovery until a querier is known; there is none.
    {
        echo "link set lo up"
        echo "link add br0 type bridge mcast_snooping 0"
        echo "addr add 192.0.2.1/24 dev br0"
        echo "link set br0 up"
        for ((i = 1; i <= count; i++)); do
            echo "link add p$i type veth peer name eth0 netns $prefix$i"
            echo "link set p$i master br0 up"
        done
    } | ip -n "$switch" -batch -
    # A bridge without an address of its own takes its ports' lowest, which changes when a guest's tap comes.
    # Internet addresses come after the links: IPv6 would otherwise be deaf for a second.
    for ((i = 1; i <= count; i++)); do
        ip -n "$prefix$i" -batch - <<END
link set lo up
link add br0 address 02:99:00:00:00:$(printf %02x "$i") type bridge mcast_snooping 0
link set eth0 master br0 up
link set br0 up
addr add 10.99.0.$i/24 dev br0
addr add 192.0.2.$((240 + i))/24 dev br0
addr add 2001:db8::f:$i/64 dev br0 nodad
END
    done
}

[ $# -ge 2 ] || usage
prefix=${!#}
[[ $prefix =~ ^[a-z]([a-z0-9-]{0,10}[a-z])?$ ]] ||
    die "PREFIX is '$prefix', not a name of up to 12 lower case letters, digits and dashes that ends with a letter"
[ "$(id -u)" = 0 ] || die "network namespaces need root"
case $1-$# in
    up-3) up "$2" "$prefix" ;;
    down-2 | down-3) down "$prefix" ;;
    *) usage ;;
esac
