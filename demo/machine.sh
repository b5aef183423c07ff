#!/bin/bash
# usage: machine.sh DEMO_DIR N        in the network namespace of node N, with a mount namespace of its own
#
# Makes node N of the demonstration a machine of its own for the processes that enter it: its host name is nodeN, its
# Gantry folders are those below DEMO_DIR/nodeN, its /etc/hosts has all nodes, and systemd is not there, so that nothing
# is started on the machine of the demonstration.  Then it waits: `demo.sh` finds its number in DEMO_DIR/nodeN/machine.pid.
#
#   /var/lib/gantry  DEMO_DIR/nodeN/lib      /var/log/gantry  DEMO_DIR/nodeN/log      /srv/gantry  DEMO_DIR/nodeN/srv
#   /etc/gantry      DEMO_DIR/nodeN/etc      /run/gantry      DEMO_DIR/nodeN/run      /etc/hosts   DEMO_DIR/hosts
set -euo pipefail

demo=$1 node=$2
folder=$demo/node$node

hostname "node$node"
for pair in lib:/var/lib log:/var/log etc:/etc run:/run srv:/srv; do
    mkdir -p "$folder/${pair%%:*}"
    mount --bind "$folder/${pair%%:*}" "${pair#*:}/gantry"
done
mount --bind "$demo/hosts" /etc/hosts
[ ! -d /run/systemd ] || mount -t tmpfs -o mode=755,size=64k tmpfs /run/systemd

mkdir -p "$folder/root"
echo $$ > "$folder/machine.pid.new"
mv "$folder/machine.pid.new" "$folder/machine.pid"
exec sleep infinity
