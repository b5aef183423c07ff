#!/bin/bash
# Compiles kube-apiserver and kube-controller-manager, inside the Debian that build.sh makes, from the source package in
# /build. It is the way that the package itself goes (debian/rules), with other programs named and one difference: the
# copy of reflect2 in it is too old for this Go, with which a server dies of its first map, so Debian's own replaces it.
set -eu
cd /build
dpkg-source --no-check --extract ./*.dsc tree >/dev/null 2>&1
cd tree
rm -r vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/
mkdir -p .go/src/k8s.io home
ln -s ../../.. .go/src/k8s.io/kubernetes
export GOPATH="$PWD/.go" HOME="$PWD/home" CGO_ENABLED=0 GO111MODULE=off
make --silent WHAT='cmd/kube-apiserver cmd/kube-controller-manager' GOLDFLAGS='-s -w'
mkdir /build/made
cp _output/bin/kube-apiserver _output/bin/kube-controller-manager /usr/bin/etcd /build/made
