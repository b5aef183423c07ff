#!/bin/sh
# Prints the environment variables of pip, proxies and certificates, NAME=VALUE, which downloads on this machine need.
env | grep -iE '^(PIP_[A-Z_]*|[a-z]*_proxy|SSL_CERT_[A-Z]*|[A-Z]*_CA_BUNDLE|GIT_SSL_[A-Z]*)=[^ ]*$' || true
