#!/usr/bin/env bash
# Writes a module proxy (see GOPROXY) with all our modules at the version that they require of each other,
# from the files of this checkout that git does not ignore:
#
#	proxy.sh DIRECTORY
#
# It prints the environment for go commands that use it. A module cache never changes a version, so it uses a
# new one, in the same directory; -trimpath has the build cache find dependencies again all the same. Other modules come from the machine's own cache, or from where GOPROXY says.
set -euo pipefail
cd "$(dirname "$0")/.."

proxy=$(realpath "$1")
main=$(sed -n 's/^module //p' go.mod)
version=$(sed -n "s#^\t*$main \(v[^ ]*\) => \./\$#\1#p" go.work)
[ -n "$version" ] || { echo "go.work does not say which version $main has" >&2; exit 1; }

index=$(mktemp -u)
trap 'rm -f "$index"' EXIT
export GIT_INDEX_FILE=$index
git read-tree HEAD
git add --all
tree=$(git write-tree)

modules=$(git ls-files '*go.mod' | xargs -n1 dirname)
nested=()
for dir in $modules; do
	[ "$dir" = . ] || nested+=(":(exclude)$dir")
done
for dir in $modules; do
	path=$(sed -n 's/^module //p' "$dir/go.mod")
	to=$proxy/$path/@v
	mkdir -p "$to"
	echo "$version" >"$to/list"
	echo "{\"Version\":\"$version\",\"Time\":\"$(date -u +%FT%TZ)\"}" >"$to/$version.info"
	cp "$dir/go.mod" "$to/$version.mod"
	if [ "$dir" = . ]; then
		git archive --format=zip --prefix="$path@$version/" -o "$to/$version.zip" "$tree" -- . "${nested[@]}"
	else
		git archive --format=zip --prefix="$path@$version/" -o "$to/$version.zip" "$tree:$dir"
	fi
done

cache=$(go env GOMODCACHE)
cat <<EOF
export GOWORK=off
export GOFLAGS='-modcacherw -trimpath${GOFLAGS:+ $GOFLAGS}'
export GONOSUMDB=$main,$main/*
export GOPROXY=file://$proxy,file://$cache/cache/download,$(go env GOPROXY)
export GOMODCACHE=$proxy/.cache
EOF
