#!/bin/busybox sh
# The whole of a guest of the tests of Xen (see image.sh): it takes the address that its kernel was told, writes one
# counter after the other to its disk, and shuts down when asked.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /*.ko; do insmod "$module"; done
for word in $(cat /proc/cmdline); do
    case $word in guest.address=*) address=${word#*=} ;; esac
done
ip link set lo up
until ip link set eth0 up 2>/dev/null; do usleep 100000; done
ip address add "$address" dev eth0
echo "the guest is up at $address"
count=0
while :; do
    count=$((count + 1))
    [ ! -b /dev/xvda ] || echo "count $count" | dd of=/dev/xvda bs=512 count=1 conv=fsync 2>/dev/null
    usleep 200000
done
