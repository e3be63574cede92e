#!/usr/bin/env bash
# Makes sure that there is an image with Prometheus, from Debian's packages, for observe/demo.
set -euo pipefail
cd "$(dirname "$0")"

name=curator-prometheus:debian
if docker image inspect "$name" >/dev/null 2>&1; then
	echo "$name"
	exit 0
fi
./debian-image.sh "$name" prometheus
