#!/usr/bin/env bash
# Runs go mod tidy in every module, also while the version that the modules require of each other does not exist
# yet. With a version, they require that one from now on:
#
#	tidy.sh [v0.2.0]
set -euo pipefail
cd "$(dirname "$0")/.."

main=$(sed -n 's/^module //p' go.mod)
files=$(git ls-files --cached --others --exclude-standard '*go.mod')
if [ $# -gt 0 ]; then
	# shellcheck disable=SC2086
	sed -i -E "s#($main[a-z/]*) v[0-9][^ ]*#\1 $1#" go.work $files
fi

proxy=$(mktemp -d)
trap 'rm -rf "$proxy"' EXIT
for file in $files; do
	(
		eval "$(scripts/proxy.sh "$proxy")"
		rm -rf "$GOMODCACHE/cache/download/$main" "$GOMODCACHE/$main"*
		cd "$(dirname "$file")"
		touch go.sum
		go mod tidy
		sed -i "\#^$main[ /]#d" go.sum # of what is not released there is no checksum yet
	)
done
