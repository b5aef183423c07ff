#!/bin/sh
# usage: kernel.sh FOLDER
#
# Makes what a node in QEMU boots, in FOLDER: Debian's ordinary kernel (vmlinuz), an initial RAM disk that mounts its disk
# (initrd), and the kernel's modules (modules/RELEASE), which the node takes from there. Needs root (apt).
set -eu
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
draft=$(mktemp -d "$(dirname "$folder")/draft.XXXXXX")
trap 'rm -rf "$draft"' EXIT
trap 'exit 1' INT TERM
export PATH="$PATH:/usr/sbin:/sbin"

"$here/../../../../demo/kernel.sh" "$draft/made" linux-image-amd64 9p 9pnet_virtio
dpkg-deb -x "$draft/made/linux-image.deb" "$draft/package"
# Most of its size is drivers of devices that no such node has.
for kind in gpu infiniband media net/ethernet net/wireless scsi staging usb; do
    rm -r "$draft"/package/lib/modules/*/kernel/drivers/"$kind"
done
rm -r "$draft"/package/lib/modules/*/kernel/sound
depmod -b "$draft/package" "$(cat "$draft/made/release")"
mv "$draft/package/lib/modules" "$draft/made/modules"
rm "$draft/made/linux-image.deb"
rm -rf "$folder"
mv "$draft/made" "$folder"
