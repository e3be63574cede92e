#!/usr/bin/env bash
# What the simulation reaches: the statements of each package, and the branches that no world reaches. The argument is how many worlds run.
# scripts/sim-unreached.txt says how many blocks of statements of a function may be such, and why. If there are more, as many other worlds run, twice
# at most, since some branches are rare; it is a failure if there still are more. bin/sim-unreached.txt has each block of statements that no world reaches,
# bin/sim-coverage.out is for go tool cover -html.
set -uo pipefail
cd "$(dirname "$0")/.."

mkdir -p bin
worlds=${1:-1000}
profile=bin/sim-coverage.out
module=$(go list -f '{{.Module.Path}}' .)/
packages=$(go list ./framework ./discovery ./retry ./connstate ./internal/conn ./internal/engine ./internal/session ./internal/verdict ./internal/wait ./recipes/... | paste -sd,)
functions=$(mktemp)
trap 'rm -f "$functions" "$profile".*' EXIT

# run adds what the worlds from seed $1 on reach to the profile, of which a line is "file:begin,end statements times".
run() {
	if ! go test -v -count=1 -timeout 24h -run TestWorlds -coverpkg="$packages" -coverprofile="$profile.new" ./test/sim -sim.first "$1" -sim.seeds "$worlds" >bin/sim-coverage.log 2>&1; then
		tail -50 bin/sim-coverage.log
		exit 1
	fi
	grep -m1 -o '[0-9]* worlds in .*' bin/sim-coverage.log
	[ "$1" -eq 1 ] || cat "$profile" >>"$profile.new"
	head -1 "$profile.new" >"$profile.sum"
	awk '!/^mode:/ { times[$1 " " $2] += $3 } END { for (block in times) print block, times[block] }' "$profile.new" | sort >>"$profile.sum"
	mv "$profile.sum" "$profile"
}

# list writes each block that is not reached, with its function. A line of cover -func is "file:line: function percent".
list() {
	go tool cover -func="$profile" | awk -v module="$module" '$1 != "total:" { sub(module, "", $1); split($1, at, ":"); print at[1], at[2], $2, $NF }' >"$functions"
	awk -v module="$module" 'FNR == NR { n[$1]++; line[$1, n[$1]] = $2; name[$1, n[$1]] = $3; next }
		FNR > 1 && $3 == 0 {
			sub(module, "", $1); split($1, at, /[:,.]/); file = at[1] "." at[2]; found = ""
			for (i = 1; i <= n[file] && line[file, i] <= at[3] + 0; i++) found = name[file, i]
			printf "%s:%d %s\n", file, at[3], found
		}' "$functions" "$profile" | sort -t: -k1,1 -k2,2n >bin/sim-unreached.txt
}

# compare fails if there is a block without a reason. Functions are known by package and name: several types of a package may have one of that name. A row of
# the list that names none is a failure, too.
compare() {
	awk -v list=scripts/sim-unreached.txt '
		function package(file) { sub(/\/[^\/]*$/, "", file); return file }
		BEGIN { while ((getline row < list) > 0) if (row !~ /^(#|$)/) { split(row, word, " "); most[word[1], word[2]] = word[3] ~ /^[0-9]+$/ ? word[3] : -1 } }
		FNR == NR { p = package($1); named[p, $3] = named["*", $3] = named[p, "*"] = named[$1, "*"] = 1; next }
		{
			file = $1; sub(/:.*/, "", file); p = package(file)
			if (most[p, $2] < 0 || most["*", $2] < 0 || most[p, "*"] < 0 || most[file, "*"] < 0) next
			missed[p, $2]++; where[p, $2] = where[p, $2] " " $1; who[p, $2] = p " " $2
		}
		END {
			for (f in missed) if (missed[f] > most[f]) {
				printf "no world reaches %d blocks of %s, and scripts/sim-unreached.txt has a reason for %d of them:%s\n", missed[f], who[f], most[f], where[f]; bad = 1
			}
			for (r in most) if (most[r] != "" && !(r in named)) { sub(SUBSEP, " ", r); printf "scripts/sim-unreached.txt names no function: %s\n", r; bad = 1 }
			exit bad
		}' "$functions" bin/sim-unreached.txt
}

for first in 1 $((worlds + 1)) $((2 * worlds + 1)); do
	run "$first"
	list
	unexplained=$(compare) && break
done

awk -v module="$module" 'NR > 1 {
	package = $1; sub(/\/[^\/]*$/, "", package); sub(module, "", package)
	all[package] += $2
	if ($3 > 0) reached[package] += $2
	else missed[package]++
} END {
	for (p in all) printf "%-34s %5.1f %%  %5d of %5d statements; %d blocks not reached\n", p, 100 * reached[p] / all[p], reached[p], all[p], missed[p]
}' "$profile" | sort
if [ -n "$unexplained" ]; then
	echo "$unexplained"
	exit 1
fi
