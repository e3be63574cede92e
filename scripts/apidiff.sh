#!/usr/bin/env bash
# Prints what changed in the API of each released module since its last tag. The module cmd has programs and no API.
# Without a tag there is nothing to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."

apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e
work=$(mktemp -d)
trap 'git worktree remove --force "$work/old" 2>/dev/null || true; rm -rf "$work"' EXIT
GOWORK=off GOBIN=$work go install "$apidiff"

for dir in . discovery/grpcresolver discovery/kratosregistry observe/otelobserve observe/promobserve sasl/gssapi zktest/ensemble; do
	prefix=${dir#.}
	tag=$(git describe --tags --abbrev=0 --match "${prefix:+$prefix/}v*" 2>/dev/null || true)
	module=$(sed -n 's/^module //p' "$dir/go.mod")
	if [ -z "$tag" ]; then
		echo "== $module: no release to compare with"
		continue
	fi
	echo "== $module since $tag"
	# In the workspace, the packages of the main module include those of the others.
	if [ "$dir" = . ]; then workspace=off; else workspace=; fi
	git worktree add --quiet --force --detach "$work/old" "$tag"
	(cd "$work/old/$dir" && GOWORK=$workspace "$work/apidiff" -m -w "$work/api" "$module")
	(cd "$dir" && GOWORK=$workspace "$work/apidiff" -m "$work/api" "$module")
	git worktree remove --force "$work/old"
done
