#!/usr/bin/env bash
# Tries a release of this checkout as a user would: with the modules at their next version in a module
# proxy, new modules outside of the checkout go get packages and build. Nothing is published.
set -euo pipefail
cd "$(dirname "$0")/.."

main=$(sed -n 's/^module //p' go.mod)
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/proxy"
eval "$(scripts/proxy.sh "$work/proxy")"
version=$(cat "$work/proxy/$main/@v/list")
fail() { echo "release-check: $*" >&2; exit 1; }

# user makes a module that imports packages, in a directory of this name, and builds it.
user() {
	local name=$1 package
	shift
	mkdir "$work/$name"
	cd "$work/$name"
	go mod init "example.com/$name" 2>/dev/null
	echo "package main" >main.go
	for package in "$@"; do
		go get "$main/$package@$version" 2>/dev/null || go get "$main/$package@$version" || fail "go get $package"
		echo "import _ \"$main/$package\"" >>main.go
	done
	echo "func main() {}" >>main.go
	go mod tidy 2>/dev/null || go mod tidy || fail "go mod tidy for $*"
	go build -o /dev/null . || fail "go build with $*"
	cd "$root"
}

user mutex recipes/mutex
inherited=$(cd "$work/mutex" && go list -m all)
for word in docker runc prometheus otel opentelemetry grpc kratos krb5 cobra pflag golang.org/x/sys; do
	if grep "$word" <<<"$inherited"; then
		fail "who imports recipes/mutex inherits that"
	fi
done
echo "who imports recipes/mutex has in go list -m all:"
sed 1d <<<"$inherited"

# examples/first, by the commands of the README, prints what the README shows.
mkdir "$work/first"
cp examples/first/main.go "$work/first"
commands=$(sed -n '/^## Try it/,/^## /s/^    \(go .*\)/\1/p' README.md)
grep -q "^go get $main\$" <<<"$commands" || fail "README.md has no line to get the module"
printed=$(cd "$work/first" && bash -e <<<"$commands" 2>"$work/first/log") || { cat "$work/first/log"; fail "examples/first does not run by the commands of README.md"; }
grep -qxF "$printed" README.md || fail "examples/first printed: $printed"

user everything recipes/mutex discovery/grpcresolver discovery/kratosregistry observe/promobserve observe/otelobserve sasl/gssapi zktest zktest/ensemble
for program in zklock zkdiscover zkserver; do
	GOBIN=$work/bin go install "$main/cmd/$program@$version" || fail "go install cmd/$program"
	"$work/bin/$program" version
done

# Every module is tidy, requires only versions, and builds without the workspace.
for file in $(git ls-files --cached --others --exclude-standard '*go.mod'); do
	dir=$(dirname "$file")
	if grep -q '^replace\|^\treplace' "$file"; then
		fail "$file replaces modules; its users would not"
	fi
	if [ "$dir" = . ]; then
		go mod tidy -diff || fail "$file is not tidy: make tidy"
		continue
	fi
	path=$(sed -n 's/^module //p' "$file")
	go mod download "$path@$version" || fail "go mod download $path"
	mkdir -p "$work/source/$dir"
	cp -r "$GOMODCACHE/$path@$version/." "$work/source/$dir"
	cd "$work/source/$dir"
	go mod tidy 2>/dev/null || go mod tidy || fail "go mod tidy in $dir"
	diff -u "$root/$file" go.mod || fail "$file is not tidy: make tidy"
	go build ./... || fail "go build in $dir"
	cd "$root"
done
echo "release-check: $main and its other modules can be had at $version"
