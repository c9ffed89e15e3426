# SPDX-License-Identifier: BSD-3-Clause
# awk -v srcdir=DIR -v name=NAME -v title=TITLE -f find.awk TEST...: print the test of that name: tests/unit/test_NAME;
# else the test whose path or end of a path is NAME, with or without .bats or .sh: `sleep`, `core/heap`,
# tests/preload/log.bats. If there are several, or none, or if TITLE is in no title of its tests, say so on standard
# error and fail. With a TITLE, NAME is a .bats file where there is one.
function without_suffix(test) {
	sub(/\.(bats|sh)$/, "", test)
	return test
}

function ends_with(test, end) {
	end = "/" end
	return substr("/" test, length(test) + 2 - length(end)) == end
}

# The letters to change, add and remove.
function distance(a, b,    i, j, above, here) {
	for (j = 0; j <= length(b); j++)
		above[j] = j
	for (i = 1; i <= length(a); i++) {
		here[0] = i
		for (j = 1; j <= length(b); j++) {
			here[j] = above[j - 1] + (substr(a, i, 1) != substr(b, j, 1))
			if (above[j] + 1 < here[j])
				here[j] = above[j] + 1
			if (here[j - 1] + 1 < here[j])
				here[j] = here[j - 1] + 1
		}
		for (j = 0; j <= length(b); j++)
			above[j] = here[j]
	}
	return above[length(b)]
}

# Without its folders, test_ and its suffix.
function bare(test) {
	test = without_suffix(test)
	sub(/.*\//, "", test)
	sub(/^test_/, "", test)
	return test
}

function is_near(test,    own, short) {
	own = bare(test)
	short = bare(name)
	return index(own, short) || distance(own, short) <= (length(short) < 6 ? 1 : 2)
}

# Of a .bats file, whether a title contains the given one.
function has_title(test,    line, found) {
	while (!found && (getline line <(srcdir "/" test)) > 0)
		found = line ~ /^@test / && index(line, title)
	return found
}

function fail(message) {
	print "make test: " message >"/dev/stderr"
	exit 2
}

BEGIN {
	if (name == "")
		fail("give a test: make test T=limbo, T=sleep, or T=tests/preload/log.bats")
	sub(/\.c$/, "", name)
	for (i = 1; i < ARGC; i++) {
		test = ARGV[i]
		if (ends_with(test, "test_" name))
			unit = test
		if (ends_with(test, name) || ends_with(without_suffix(test), name)) {
			found = test
			all = all " " test
			count++
		}
		if (is_near(test))
			near = near " " test
	}
	if (title != "" && count)
		unit = ""
	if (!unit && count > 1)
		fail("T=" name " is several tests; give one of" all)
	if (!unit && !count && (getline line <(srcdir "/" name)) >= 0)
		fail(name " is in no list: add it to that of the local.mk of its folder")
	if (!unit && !count && (getline line <(srcdir "/tests/unit/test_" bare(name) ".c")) >= 0)
		fail("tests/unit/test_" bare(name) ".c is in no list: add it to UNIT_TESTS in a .mk of tests/unit")
	if (!unit && !count)
		fail("no test is named " name ": neither tests/unit/test_" name " nor, below tests/, " name ", " name ".bats or " \
			name ".sh; near:" (near ? near : " none"))
	test = unit ? unit : found
	if (title != "" && test !~ /\.bats$/)
		fail("ONLY is for .bats files: " test " runs all its tests")
	if (title != "" && !has_title(test))
		fail("no title of " test " contains '" title "'")
	print test
}
