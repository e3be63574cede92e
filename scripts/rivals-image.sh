#!/usr/bin/env bash
# Makes sure that there is an image with the servers that bench compares with: etcd and Redis, from Debian's
# packages. With --build it is built even if it is there.
set -euo pipefail
cd "$(dirname "$0")"

name=curator-rivals:debian
if [ "${1:-}" != --build ] && docker image inspect "$name" >/dev/null 2>&1; then
	echo "$name"
	exit 0
fi
./debian-image.sh "$name" etcd-server,redis-server
