#!/bin/bash
# usage: demo.sh up | down | status | gnt COMMAND [ARGUMENT...] | shell N [COMMAND [ARGUMENT...]]
#
# The demonstration: three nodes on this machine, a cluster on them, a network, and a virtual machine that answers on
# an IPv4 and an IPv6 address.  `up` prints each command before it runs it and leaves the cluster up; `down` takes
# away its processes, namespaces, bridges and files; `gnt` runs a command as on the first node (demo/gnt does that),
# `shell` a shell or a command as on node N (demo/shell does that).
#
# Each node is a machine of its own for its processes (machine.sh): /var/lib/gantry and the other folders of Gantry are
# the node's, also for the commands.  Nothing on this machine changes except for these, which `down` removes again: the
# namespaces, DEMO_DIR, and empty folders of Gantry and an empty /etc/hosts where this machine has none, as places for
# the nodes' own.
#
#   DEMO_PREFIX (gdemo)                 what the names of its namespaces begin with; ends with a letter
#   DEMO_DIR (/var/lib/gantry-demo)     node1, node2, node3: the nodes' folders; hosts: their /etc/hosts
#                                       since: when it was started, and the mark that the folder is a demo's
#   build/guest in the checkout         the guest's kernel, kept by `down`: a cache that costs a download
#   console in DEMO_DIR                 process and port of what leads from a port of 127.0.0.1 to the console on node1
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(dirname "$here")
programs=$checkout/.venv/bin
guest=$checkout/build/guest
DEMO_DIR=${DEMO_DIR:-/var/lib/gantry-demo}
prefix=${DEMO_PREFIX:-gdemo}
nodes=3
place_mark=.place-of-a-demo
network=demo
instance=hello.example
port=1811
console=$checkout/src/gantry/doors/console/static/index.html
console_ports=({5080..5099})
console_user=admin
folders=(/var/lib/gantry /var/log/gantry /etc/gantry /run/gantry /srv/gantry)

# The options that the demonstration shows; an array a command.
address() { echo "10.99.0.$1"; }
init=(gnt-cluster init --enabled-hypervisors kvm --allow "images=$guest"
    -H "kvm:kernel_path=$guest/vmlinuz,initrd_path=$guest/initrd,root_path=/dev/vda,kernel_args=ro quiet no_timer_check"
    --enabled-disk-templates file,diskless --master-netdev br0 -N "mode=bridged,link=br0"
    --node-name node1 --primary-ip "$(address 1)" demo.example)
add_node() { run gnt-node add --join-token-file "$(root "$1")/lib/join-token" --primary-ip "$(address "$1")" "node$1"; }
add_network=(gnt-network add
    --subnet "cidr=198.51.100.0/24,gateway=198.51.100.1" --subnet cidr=2001:db8:d::/64
    --pool "198.51.100.10-198.51.100.100,name=demo4" --pool "2001:db8:d::1:0-2001:db8:d::1:ffff,name=demo6" "$network")
connect=(gnt-network connect -N "mode=bridged,link=br0" "$network" default)
add_instance=(gnt-instance add -t file --disk 0:size=64M -o busybox -B memory=128
    --net "0:ip0=demo4,ip1=demo6,ip2=198.51.100.200,network=$network" -n node2 "$instance")
addresses_of=(gnt-instance list --no-headers -o nic.ips "$instance")

say() { printf '%s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }
root() { echo "$DEMO_DIR/node$1"; }
has_spaces() { ip netns list | grep -qE "^$prefix(sw|[0-9]+)( |\$)"; }

# inside N COMMAND...: runs a command as a user of node N would, in the present folder.
inside() {
    local node=$1
    shift
    # shellcheck disable=SC2046  # no number: nsenter says so
    nsenter --target "$(cat "$(root "$node")/machine.pid" 2>/dev/null)" --net --mount --uts --root \
        env --unset=GANTRY_ROOT --chdir="$PWD" "HOME=$(root "$node")/root" "DEMO_DIR=$DEMO_DIR" \
        "PATH=$here/bin:$programs:$PATH" "$@"
}

# run COMMAND...: prints a command as it would be typed, and runs it on the first node.
run() {
    local word
    printf '\n$'
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_@%+=:,./-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    inside 1 "$@"
}

# wait_for SECONDS WHAT COMMAND...: polls until the command succeeds; a dot a second.
wait_for() {
    local limit=$1 what=$2 start=$SECONDS dots=0
    shift 2
    printf '%s ' "$what"
    until "$@" >/dev/null 2>&1; do
        [ $((SECONDS - start)) -lt "$limit" ] || { printf ' not within %s s\n' "$limit"; return 1; }
        while [ "$dots" -lt $((SECONDS - start)) ]; do printf .; dots=$((dots + 1)); done
        sleep 0.2
    done
    printf ' yes\n'
}

answers() { inside 1 bash -c ": < /dev/tcp/$(address "$1")/$port"; }
pings() { inside 3 ping -c 1 -W 1 "$1"; }

check_machine() {
    local tool
    for tool in ip ping busybox mkfs.ext4 qemu-system-x86_64 "$programs/gantry-noded"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || die "$tool is missing: 'make demo' installs what is needed"
    done
    [ -c /dev/net/tun ] || die "/dev/net/tun is missing: a guest cannot be connected to a bridge on this machine"
}

# Takes DEMO_DIR, or says who has it.
claim_folder() {
    if [ -e "$DEMO_DIR/since" ] && has_spaces; then
        die "a demo is up since $(cat "$DEMO_DIR/since"); look at it with 'demo/gnt gnt-instance list', take it down with 'make demo-down'"
    fi
    has_spaces && die "network namespaces $prefix* are left from another demo; take them down with 'make demo-down'"
    if [ -e "$DEMO_DIR/since" ]; then
        say "Removing $DEMO_DIR, the files of a demo that did not survive a restart of the machine."
        rm -rf -- "$DEMO_DIR"
    fi
    mkdir -p -- "$(dirname -- "$DEMO_DIR")"
    mkdir -- "$DEMO_DIR" 2>/dev/null || die "$DEMO_DIR exists and is no demo's: choose another folder with DEMO_DIR=..."
    date '+%Y-%m-%d %H:%M:%S' > "$DEMO_DIR/since"
}

# Gives a node addresses from which it reaches the guests of the demonstration's network, and the switch the gateway's.
reach_guests() {
    ip -n "$prefix$1" addr add "198.51.100.$((240 + $1))/24" dev br0
    ip -n "$prefix$1" addr add "2001:db8:d::f:$1/64" dev br0 nodad
    [ "$1" != 1 ] || ip -n "${prefix}sw" addr add 198.51.100.1/24 dev br0
}

# Makes the folders of Gantry that this machine does not have, and /etc/hosts: the nodes' own are mounted there.
make_places() {
    local folder
    [ -e /etc/hosts ] || echo "# $place_mark" >/etc/hosts
    for folder in "${folders[@]}"; do
        [ -d "$folder" ] || { mkdir -p "$folder"; : >"$folder/$place_mark"; }
    done
}

# Removes these folders, unless another demonstration uses them.
remove_places() {
    local folder
    if [ "$(cat /etc/hosts 2>/dev/null)" = "# $place_mark" ] && ! grep -qs ' /etc/hosts ' /proc/[0-9]*/mountinfo; then
        rm /etc/hosts
    fi
    for folder in "${folders[@]}"; do
        [ -e "$folder/$place_mark" ] || continue
        ! grep -qs " $folder " /proc/[0-9]*/mountinfo || continue
        rm -- "$folder/$place_mark"
        rmdir -- "$folder"
    done
}

write_hosts() {
    local i
    {
        echo "127.0.0.1 localhost"
        echo "::1 localhost ip6-localhost ip6-loopback"
        for ((i = 1; i <= nodes; i++)); do echo "$(address "$i") node$i"; done
    } >"$DEMO_DIR/hosts"
}

start_machine() {
    ip netns exec "$prefix$1" unshare --uts "$here/machine.sh" "$DEMO_DIR" "$1" </dev/null >"$DEMO_DIR/machine$1.out" 2>&1 &
    wait_for 20 "Is node$1 a machine of its own?" test -s "$(root "$1")/machine.pid" || {
        cat "$DEMO_DIR/machine$1.out" >&2
        die "the namespaces of node$1 cannot be made on this machine"
    }
}

start_node() {
    mkdir -p "$(root "$1")/srv/os"
    cp -R "$here/../os/busybox" "$(root "$1")/srv/os/busybox"
    inside "$1" setsid --fork gantry-noded --bind "$(address "$1")" </dev/null >"$(root "$1")/log/noded.out" 2>&1
}

up() {
    local i ip started=$SECONDS
    check_machine
    claim_folder
    trap stopped EXIT
    "$here/kernel.sh" "$guest"

    say "Building $nodes nodes: network namespaces ${prefix}1 to $prefix$nodes, bridges joined by a switch in ${prefix}sw."
    "$here/net.sh" up "$nodes" "$prefix"
    for ((i = 1; i <= nodes; i++)); do reach_guests "$i"; done
    make_places
    write_hosts
    for ((i = 1; i <= nodes; i++)); do start_machine "$i"; done
    for ((i = 1; i <= nodes; i++)); do start_node "$i"; done
    for ((i = 1; i <= nodes; i++)); do
        wait_for 120 "Is the node daemon of node$i up?" answers "$i" || node_failed "$i"
        wait_for 120 "Has node$i a join token?" test -s "$(root "$i")/lib/join-token" || node_failed "$i"
    done

    run "${init[@]}"
    for ((i = 2; i <= nodes; i++)); do add_node "$i"; done
    run "${add_network[@]}"
    run "${connect[@]}"
    run "${add_instance[@]}"
    run gnt-instance list

    printf '\n'
    mapfile -t ips < <(inside 1 "${addresses_of[@]}" | grep -oE '198\.51\.100\.[0-9]+|2001:db8:[0-9a-f:]+')
    [ "${#ips[@]}" = 3 ] || die "$instance has ${#ips[@]} addresses, expected one from each pool and 198.51.100.200"
    for ip in "${ips[@]}"; do wait_for 180 "Does $ip answer to node3?" pings "$ip" || die "$instance does not answer"; done
    for ip in "${ips[@]}"; do
        printf '\nnode3$ ping -c 2 %s\n' "$ip"
        inside 3 ping -c 2 -i 0.2 "$ip"
    done
    at_console='    make console                                    builds the console for browsers: it could not be built'
    [ ! -e "$console" ] || { at_console='    (the console does not answer: the reason is above)'; start_console; }
    trap - EXIT
    next_steps $((SECONDS - started)) "${ips[0]}"
}

# Starts the remote API with the console on the first node, and leads the first free port of 127.0.0.1 to it: nothing
# else on this machine reaches the nodes. Prints where it is, and the log-in.
start_console() {
    local port password
    password=$(od -An -N9 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077; echo "$console_user $password write" >>"$(root 1)/lib/users")
    inside 1 setsid --fork gantry-rapi --bind "$(address 1)" </dev/null >"$(root 1)/log/rapi.out" 2>&1
    if ! wait_for 60 "Does the remote API with the console answer?" inside 1 bash -c ": < /dev/tcp/$(address 1)/5080"; then
        say "There is no console; see $(root 1)/log/rapi.out."
        return
    fi
    for port in "${console_ports[@]}"; do
        ! (: </dev/tcp/127.0.0.1/"$port") 2>/dev/null || continue
        setsid socat "TCP4-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" \
            "EXEC:'ip netns exec ${prefix}1 socat - TCP4:$(address 1):5080'" </dev/null >/dev/null 2>&1 &
        echo "$! $port" >"$DEMO_DIR/console"
        if wait_for 5 "Does the console answer on port $port?" answers_here "$port"; then
            printf -v at_console '    https://localhost:%s/                         the console in a browser, which warns of the' "$port"
            printf -v at_console '%s\n%52scertificate; user %s, password %s' "$at_console" "" "$console_user" "$password"
            return
        fi
        end_console
    done
    say "No port from ${console_ports[0]} on of this machine leads to the console."
}

answers_here() { curl --silent --insecure --max-time 5 --output /dev/null "https://127.0.0.1:$1/console/"; }

end_console() {
    local pid port
    read -r pid port 2>/dev/null <"$DEMO_DIR/console" || return 0
    ! grep -qsa "TCP4-LISTEN:$port" "/proc/$pid/cmdline" || kill "$pid"
    rm -f -- "$DEMO_DIR/console"
}

node_failed() {
    tail -n 5 "$(root "$1")/log/noded.out" >&2
    die "the node daemon of node$1 did not start"
}

stopped() {
    local status=$?
    [ "$status" = 0 ] || say "
The demo did not finish. What the nodes say is in $DEMO_DIR/node*/log; take it down with 'make demo-down'." >&2
    exit "$status"
}

next_steps() {
    cat <<END

The cluster is up ($1 s), and stays up. Try next (as root):

$at_console
    demo/gnt gnt-instance list                      what runs
    demo/gnt gnt-instance console $instance      its console; Ctrl-] leaves it
    demo/gnt gnt-instance stop $instance         the power button, then the plug
    demo/gnt gnt-instance start $instance
    demo/gnt gnt-instance modify --net add:ip=demo4,network=$network $instance      a second NIC, while it
                                                    runs; its address is set in the guest: ip addr add
    demo/gnt gnt-instance remove $instance       gives its addresses back
    demo/gnt gnt-network info $network                   subnets, pools, who has which address
    demo/gnt gnt-job list                           what was done
    demo/shell 3 busybox wget -qO- http://$2/     the guest's web page, seen from node3
    demo/shell 1                                    a shell on node1, in which every page of docs/how-to holds

    make demo-down                                  takes everything away again
END
}

# Ends the processes in the demo's own namespaces: nobody else starts any there.
end_processes() {
    local signal=TERM deadline=$((SECONDS + 8)) pids
    while pids=$(for space in $(ip netns list | awk '{ print $1 }' | grep -xE "$prefix(sw|[0-9]+)"); do
        ip netns pids "$space"
    done) && [ -n "$pids" ]; do
        # shellcheck disable=SC2086
        kill -s "$signal" $pids 2>/dev/null || true
        [ "$SECONDS" -lt "$deadline" ] || signal=KILL
        sleep 0.2
    done
}

down() {
    local found=
    if has_spaces; then
        found=1
        say "Ending the demo's processes."
        end_console
        end_processes
        say "Removing its network namespaces and bridges."
        "$here/net.sh" down "$prefix"
    fi
    if [ -e "$DEMO_DIR/since" ]; then
        found=1
        say "Removing $DEMO_DIR."
        rm -rf -- "$DEMO_DIR"
    fi
    remove_places
    [ -n "$found" ] || say "No demo is up."
}

status() {
    local i count
    if ! [ -e "$DEMO_DIR/since" ] || ! has_spaces; then
        say "No demo is up; start one with 'make demo'."
        exit 1
    fi
    say "A demo is up since $(cat "$DEMO_DIR/since"), its files are in $DEMO_DIR."
    for ((i = 1; i <= nodes; i++)); do
        count=$(ip netns pids "$prefix$i" | wc -l)
        say "node$i: $count processes in the namespace $prefix$i, address $(address "$i")"
    done
}

# A shell of root on node N, in its home folder; or a command there.
shell() {
    local node=${1-}
    [[ $node =~ ^[1-9]$ && $node -le $nodes ]] || die "'$node' is not a node: choose a number from 1 to $nodes"
    shift
    mkdir -p "$(root "$node")/root"
    cd "$(root "$node")/root"
    if [ $# -gt 0 ]; then
        inside "$node" "$@"
    else
        inside "$node" env "PS1=root@node$node:\w# " bash --noprofile --norc -i
    fi
}

# login HOST COMMAND: runs a command of root's shell on the node with a name or address, a shell if it is empty.
login() {
    local i
    for ((i = 1; i <= nodes; i++)); do
        case $1 in
            "node$i" | "$(address "$i")")
                if [ -n "${2-}" ]; then shell "$i" bash -c "$2"; else shell "$i"; fi
                return
                ;;
        esac
    done
    printf 'ssh: Could not resolve hostname %s: Name or service not known\n' "$1" >&2
    exit 255
}

[ $# -ge 1 ] || die "usage: demo.sh up | down | status | gnt COMMAND [ARGUMENT...] | shell N [COMMAND [ARGUMENT...]]"
[ "$(id -u)" = 0 ] || die "the demo makes network namespaces and bridges and needs root: run it as root, or with sudo"
case $1 in
    up | down | status) "$1" ;;
    gnt)
        shift
        has_spaces || die "no demo is up; start one with 'make demo'"
        [ $# -ge 1 ] || set -- gnt-instance list
        inside 1 "$@"
        ;;
    shell | login)
        # A login comes from a node, which does not see the namespaces.
        [ "$1" = login ] || has_spaces || die "no demo is up; start one with 'make demo'"
        "$@"
        ;;
    *) die "'$1' is not up, down, status, gnt or shell" ;;
esac
