#!/bin/sh
# The first process of a node of the storage tests (see image.sh). The host's file system is at /host, for reading.
#
# Kernel command line: init.name=NAME init.address=ADDRESS/LENGTH init.agent=PATH of agent.py on the host
# init.modules=PATH of the kernel's modules on the host
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
argument() {
    for word in $(cat /proc/cmdline); do
        case $word in "$1"=*) echo "${word#*=}" ;; esac
    done
}
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/shm /run
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mkdir -p /run/lock /run/lvm /var/lib/drbd /var/run/drbd
ln -sfn /proc/self/fd /dev/fd
mount --bind "/host$(argument init.modules)" /lib/modules
hostname "$(argument init.name)"
# LVM does not know User-Mode Linux's disks.
mkdir -p /etc/lvm
echo 'devices { types = [ "ubd", 16 ] }' >/etc/lvm/lvmlocal.conf
ip link set lo up
# User-Mode Linux has a name of its own for it.
[ ! -e /sys/class/net/vec0 ] || ip link set vec0 name eth0
ip link set eth0 up
ip address add "$(argument init.address)" dev eth0
# Of udev only what LVM waits for: what else it runs at each change of a device takes seconds here.
for rules in /lib/udev/rules.d/*; do
    case ${rules##*/} in 50-udev-default.rules | 55-dm.rules | 56-lvm.rules | 95-dm-notify.rules) ;; *) rm "$rules" ;; esac
done
/lib/systemd/systemd-udevd --daemon
udevadm trigger
modprobe -a dm-mod dm-snapshot
modprobe drbd minor_count=64 usermode_helper=/bin/true
python3 "/host$(argument init.agent)" &
echo "the node is up" >/dev/console
while :; do
    wait
    sleep 1
done
