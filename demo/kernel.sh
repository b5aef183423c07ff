#!/bin/bash
# usage: kernel.sh DIR [META-PACKAGE MODULE...]
#
# Leaves a guest's kernel in DIR/vmlinuz and a small initramfs in DIR/initrd.  The kernel is Debian's cloud kernel, or
# the one that META-PACKAGE depends on, downloaded and unpacked, not installed.  The initramfs loads the modules of a
# virtio machine and each MODULE, mounts the disk that `root=` on the kernel command line names, and hands over to
# /sbin/init of that disk.
# Needs root (apt), busybox-static.  What DIR already holds is kept; the downloaded package stays there as the cache.
set -eu
export LC_ALL=C

modules="virtio_pci virtio_blk virtio_net virtio_rng virtio_balloon button evdev crc32c_generic ext4"
meta=linux-image-cloud-amd64

say() { echo "kernel: $*"; }
die() { echo "kernel: $*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: kernel.sh DIR [META-PACKAGE MODULE...]"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
if [ $# -gt 0 ]; then
    meta=$1
    shift
    modules="$modules $*"
fi
busybox=$(command -v busybox) || die "busybox is missing: apt-get install busybox-static"
if ldd "$busybox" >/dev/null 2>&1; then
    die "$busybox is not static, a guest cannot run it: apt-get install busybox-static"
fi

if [ -s "$dir/vmlinuz" ] && [ "$dir/initrd" -nt "$0" ]; then
    say "$(cat "$dir/release") is ready in $dir"
    exit 0
fi

work=$(mktemp -d "$dir/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# The meta package names the versioned one.  The sandbox user of apt may not enter DIR, hence root downloads.
download() {
    package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
    [ -n "$package" ] || return 1
    say "downloading $package"
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package")
}

if ! [ -s "$dir/linux-image.deb" ]; then
    if ! download; then
        say "not found, or not there any more: refreshing the package lists (apt-get update)"
        apt-get -qq update
        download || die "no package that $meta depends on can be downloaded: check the apt sources"
    fi
    mv "$work"/linux-image-*.deb "$dir/linux-image.deb"
fi

say "unpacking"
dpkg-deb -x "$dir/linux-image.deb" "$work/package" ||
    { rm -f "$dir/linux-image.deb"; die "the downloaded package was damaged and is removed: run again"; }
release=$(ls "$work/package/lib/modules")

say "building the initramfs for $release"
tree=$work/initramfs
mkdir -p "$tree/bin" "$tree/modules" "$tree/dev" "$tree/proc" "$tree/sys" "$tree/root"
cp "$busybox" "$tree/bin/busybox"
for applet in sh mount umount insmod switch_root cat sleep poweroff; do ln -s busybox "$tree/bin/$applet"; done

# Load order is dependency order; modules.dep lists what a module needs from the nearest to the farthest.
"$busybox" depmod -b "$work/package" "$release"
folder=$work/package/lib/modules/$release
files_of() {
    awk -v "name=$1" '
        { file = $1; sub(/:$/, "", file); base = file; sub(/.*\//, "", base); sub(/\.ko.*/, "", base); gsub(/-/, "_", base) }
        base == name { for (i = NF; i >= 2; i--) print $i; print file }' "$folder/modules.dep"
}
for module in $modules; do
    files=$(files_of "$module")
    [ -n "$files" ] || grep -q "/$module\.ko" "$folder/modules.builtin" || die "$release has no module $module"
    for file in $files; do
        [ -e "$tree/modules/${file##*/}" ] && continue
        cp "$folder/$file" "$tree/modules/"
        echo "${file##*/}" >> "$tree/modules/order"
    done
done

cat > "$tree/init" <<'INIT'
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done < /modules/order
root=
mode=ro
for word in $(cat /proc/cmdline); do
    case $word in
        root=*) root=${word#root=} ;;
        ro|rw) mode=$word ;;
    esac
done
give_up() { echo "initramfs: $*: the machine is switched off"; sleep 1; poweroff -f; }
[ -n "$root" ] || give_up "the kernel command line has no root="
tries=0
until [ -b "$root" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 50 ] || give_up "$root does not exist"
    sleep 0.1
done
mount -t ext4 -o "$mode" "$root" /root || give_up "$root holds no ext4 file system"
[ -x /root/sbin/init ] || [ -L /root/sbin/init ] || give_up "$root has no /sbin/init"
umount /sys
umount /proc
exec switch_root /root /sbin/init
INIT
chmod 755 "$tree/init"
(cd "$tree" && find . | sort | "$busybox" cpio -o -H newc -R 0:0 2>/dev/null) | gzip -6 > "$work/initrd"

cp "$work/package/boot/vmlinuz-$release" "$work/vmlinuz"
echo "$release" > "$work/release"
mv "$work/vmlinuz" "$work/release" "$work/initrd" "$dir/"
say "$release is ready in $dir ($(du -k "$dir/initrd" | cut -f1) KiB of initramfs)"
