#!/usr/bin/env bash
# Makes sure that there is an image with a Kerberos KDC, from Debian's packages, for the tests of sasl/gssapi.
set -euo pipefail
cd "$(dirname "$0")"

name=curator-kdc:debian
if docker image inspect "$name" >/dev/null 2>&1; then
	echo "$name"
	exit 0
fi
./debian-image.sh "$name" krb5-kdc,krb5-admin-server,krb5-user
