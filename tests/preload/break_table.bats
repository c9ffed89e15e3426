#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Each row of BREAKAGE.md names an existing test.

setup() {
	TABLE=$BATS_TEST_DIRNAME/BREAKAGE.md
}

@test "each row of BREAKAGE.md names its source and a test that exists" {
	local rows=0 bug source test
	while IFS='|' read -r _ bug source test _; do
		rows=$((rows + 1))
		test=${test# } test=${test% }
		[[ $bug == *[A-Za-z]* && $source == *[A-Za-z]* ]]
		grep -qxF "@test \"${test#*: }\" {" "$BATS_TEST_DIRNAME/${test%%: *}" || { echo "no such test: $test"; return 1; }
	done < <(grep '^| ' "$TABLE" | tail -n +2)
	[ "$rows" -gt 60 ]
	[ "$rows" -eq "$(($(grep -c '^|' "$TABLE") - 2))" ]
}

@test "each test of break_*.bats for a known bug is in BREAKAGE.md" {
	# Not in the table: tests of the tests' own means.
	local beside='^(each row of|each test of|a device where nothing|each device of two|a lack of|a device without)'
	sed -n 's/^@test "\(.*\)" {$/\1/p' "$BATS_TEST_DIRNAME"/break_*.bats | grep -vE "$beside" >"$BATS_TEST_TMPDIR/tests"
	[ -s "$BATS_TEST_TMPDIR/tests" ]
	while read -r name; do
		grep -qF ": $name |" "$TABLE" || { echo "not in the table: $name"; return 1; }
	done <"$BATS_TEST_TMPDIR/tests"
}
