#!/bin/sh
# The first process of Xen's own domain in the tests (see image.sh). The host's file system is at /host, for reading.
#
# Kernel command line: init.name=NAME init.address=ADDRESS/LENGTH init.agent=PATH of agent.py on the host
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
argument() {
    for word in $(cat /proc/cmdline); do
        case $word in "$1"=*) echo "${word#*=}" ;; esac
    done
}
mountpoint -q /sys || mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /run
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mountpoint -q /run || mount -t tmpfs run /run
ln -sfn /proc/self/fd /dev/fd
# Without these Xen's scripts for devices spin until xl gives up.
for pair in 0:stdin 1:stdout 2:stderr; do ln -sfn "/proc/self/fd/${pair%:*}" "/dev/${pair#*:}"; done
hostname "$(argument init.name)"
modprobe -a xen-evtchn xen-gntdev xen-gntalloc xen-blkback xen-netback xenfs xen-privcmd loop bridge tun virtio_net
mountpoint -q /proc/xen || mount -t xenfs xenfs /proc/xen
mkdir -p /var/lib/xen /var/log/xen /run/xen /run/xenstored /run/lock
programs=$(echo /usr/lib/xen-4.*/bin)
"$programs/oxenstored" --pid-file /run/xenstored.pid 2>/dev/null || "$programs/xenstored" --pid-file /run/xenstored.pid
until xenstore-exists -s / 2>/dev/null; do sleep 0.2; done
"$programs/xen-init-dom0"
"$programs/xenconsoled" --pid-file=/run/xenconsoled.pid
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
ip link set eth0 master br0 up
ip address add "$(argument init.address)" dev br0
python3 "/host$(argument init.agent)" &
echo "the node is up" >/dev/console
while :; do
    wait
    sleep 1
done
