#!/usr/bin/env bash
# Prints what changed in the API of each released module since its last tag, or without a tag since scripts/api,
# the surface before the first release. The module cmd has programs and no API.
#   scripts/apidiff.sh        compare
#   scripts/apidiff.sh -w     write the surface of the checkout to scripts/api, after a change that is meant, until there are tags
set -euo pipefail
cd "$(dirname "$0")/.."

apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e
work=$(mktemp -d)
trap 'git worktree remove --force "$work/old" 2>/dev/null || true; rm -rf "$work"' EXIT
GOWORK=off GOBIN=$work go install "$apidiff"

for dir in . discovery/grpcresolver discovery/kratosregistry observe/otelobserve observe/promobserve sasl/gssapi zktest/ensemble; do
	prefix=${dir#.}
	module=$(sed -n 's/^module //p' "$dir/go.mod")
	base=$PWD/scripts/api/${module##*/}.api
	# In the workspace, the packages of the main module include those of the others.
	if [ "$dir" = . ]; then workspace=off; else workspace=; fi
	if [ "${1:-}" = -w ]; then
		mkdir -p scripts/api
		(cd "$dir" && GOWORK=$workspace "$work/apidiff" -m -w "$base" "$module")
		continue
	fi
	tag=$(git describe --tags --abbrev=0 --match "${prefix:+$prefix/}v*" 2>/dev/null || true)
	if [ -n "$tag" ]; then
		echo "== $module since $tag"
		git worktree add --quiet --force --detach "$work/old" "$tag"
		base=$work/api
		(cd "$work/old/$dir" && GOWORK=$workspace "$work/apidiff" -m -w "$base" "$module")
		git worktree remove --force "$work/old"
	else
		echo "== $module since scripts/api"
	fi
	(cd "$dir" && GOWORK=$workspace "$work/apidiff" -m "$base" "$module" 2>&1 | sed '/^Ignoring internal package/d')
done
