#!/bin/sh
# usage: twice.sh [OPTION...]
#
# Builds the Debian packages of this checkout's HEAD twice, each time in a clean Debian of its own (clean-root.sh, with these
# options), and compares the two builds byte by byte. Names each package that differs, and the files in which it differs;
# then the exit code is 1. The packages of the last build are in dist/.
set -eu
checkout=$(cd "$(dirname "$0")/../.." && pwd)
cd "$checkout"
version=$(dpkg-parsechangelog --show-field Version)
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/twice.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

for build in first second; do
    tools/clean-root.sh "$@" --out dist build-packages
    mkdir "$folder/$build"
    cp dist/gantry*"_${version}_"*.deb "$folder/$build"
done

code=0
for package in $(find "$folder" -name '*.deb' -printf '%f\n' | sort -u); do
    ! cmp --silent "$folder/first/$package" "$folder/second/$package" || continue
    code=1
    echo "$package differs:"
    for build in first second; do
        dpkg-deb --raw-extract "$folder/$build/$package" "$folder/$build/files" || mkdir -p "$folder/$build/files"
    done
    # Times and owners are in the list, contents are not.
    (cd "$folder" && diff --brief --recursive --no-dereference first/files second/files) || true
    for build in first second; do dpkg-deb --contents "$folder/$build/$package" >"$folder/$build/list" || true; done
    diff "$folder/first/list" "$folder/second/list" || true
    rm -rf "$folder/first/files" "$folder/second/files"
done
[ "$code" -ne 0 ] || echo "packages: both builds are the same"
exit "$code"
