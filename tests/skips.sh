#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# skips.sh SRCDIR TESTS CONDITION...: run the .bats files TESTS without a condition, then once in each
# CONDITION (SIM_DRIVER=11.4, GPUMEM_FREE=defer). Stop at the first run with a failure. A condition must skip
# exactly the tests skipped without it, and the tests that exclude it by `needs_driver` or `frees_wait`.
srcdir=$1 tests=$2
shift 2
new=$(mktemp -d "${TMPDIR:-/tmp}/skips.XXXXXX") || exit 1
trap 'rm -rf "$new"' EXIT

# Print the tests that exclude the condition, as FILE: NAME. A line in setup() excludes all tests of its file.
unsuited() {
	for t in $tests; do
		awk -v file="$t" -v driver="${SIM_DRIVER:-13.4}" -v free="${GPUMEM_FREE:-sync}" '
			function number(version, part) {
				split(version, part, ".")
				return part[1] * 1000 + part[2]
			}
			/^setup\(\) \{/ {name = "setup"; all = 0}
			/^@test / {name = $0; gsub(/^@test "|" \{$|\\/, "", name); unsuited = all}
			$1 == "needs_driver" && number($2) > number(driver) {unsuited = 1}
			$1 == "frees_wait" && free != "sync" {unsuited = 1}
			/^}/ && name == "setup" {all = unsuited}
			/^}/ && name != "setup" && name != "" && unsuited {print file ": " name}
			/^}/ {name = ""; unsuited = 0}' "$srcdir/$t"
	done
}

skipped() {
	for t in $tests; do
		sed -n "s|^ok [0-9]* \(.*\) # skip.*|$t: \1|p" "${t%.bats}.log"
	done
}

run() { # run [CONDITION]
	echo "== ${1:-as it is}"
	env ${1:+"$1"} $MAKE check TESTS="$tests" || exit 1
	skipped | sort >"$new/skipped"
}

run
cp "$new/skipped" "$new/always"
for condition; do
	run "$condition"
	(export "$condition" && unsuited) | sort -u - "$new/always" >"$new/expected"
	echo "== $condition: $(wc -l <"$new/skipped") tests are skipped, $(wc -l <"$new/always") of them in any case"
	diff "$new/expected" "$new/skipped" >"$new/wrong" || {
		echo "skips.sh: skipped against expectation (>), or not although expected (<):" >&2
		cat "$new/wrong" >&2
		exit 1
	}
done
