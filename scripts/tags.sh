#!/usr/bin/env bash
# Prints the tags of a release of this checkout in the order in which they are pushed, and what go get of each module
# brings, from a module proxy on disk (scripts/proxy.sh). Nothing is published.
#
#	tags.sh          # a dry run
#	tags.sh --tag    # creates the tags at HEAD, which must be clean
set -euo pipefail
cd "$(dirname "$0")/.."

main=$(sed -n 's/^module //p' go.mod)
root=$PWD
create=
case ${1:-} in
'') ;;
--tag)
	create=yes
	[ -z "$(git status --porcelain)" ] || { echo "tags.sh: uncommitted changes" >&2; exit 1; }
	;;
*) echo "usage: tags.sh [--tag]" >&2; exit 2 ;;
esac

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/proxy"
eval "$(scripts/proxy.sh "$work/proxy")"

# Released are the modules of which go.work says which version they get; the main module, which the others require, is the first.
sed -n "s#^\t*\($main[^ ]*\) \(v[^ ]*\) => \(\./[^ ]*\)\$#\1 \2 \3#p" go.work | sort |
	while read -r path version dir; do
		grep -q "^module $path\$" "$dir/go.mod" || { echo "tags.sh: $dir is not $path" >&2; exit 1; }
		tag=${dir#./}
		tag=${tag:+${tag%/}/}$version
		mkdir -p "$work/user"
		cd "$work/user"
		rm -f go.mod go.sum
		go mod init example.com/user 2>/dev/null
		go get "$path@$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
		brings=$(go list -m all | sed 1d)
		echo "$tag: go get $path brings $(wc -l <<<"$brings") modules"
		sed 's/^/    /' <<<"$brings"
		cd "$root"
		if [ -n "$create" ]; then
			git tag -a "$tag" -m "$tag"
		elif git rev-parse -q --verify "refs/tags/$tag" >/dev/null; then
			echo "tags.sh: the tag $tag exists" >&2
			exit 1
		fi
	done
