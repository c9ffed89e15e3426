#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What every file of the project owes its readers; prints TAP. Run with the source folder as argument, or $srcdir set.
cd "${1:-${srcdir:-.}}" || exit 99
n=0 bad=0

check() { # check NAME OFFENDERS
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$2" | head -n 20 | sed 's/^/# /'
		bad=1
	fi
}

skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

sources=$(find api src shim tools tests -name '*.[chS]' -o -name '*.def' -o -name '*.cu' -o -name '*.cc' | sort)
code=$(printf '%s\n' "$sources" | grep -E '\.([ch]|cu|cc)$')
scripts=$(find . -name '.?*' -prune -o -path ./build -prune -o -path './gpumem-*' -prune -o \( -name '*.sh' -o -name '*.bats' -o -name '*.py' \
	-o -name '*.mk' -o -name '*.m4' \) -print | grep -vE '/(build-aux|(gpu|bench)-bundle)/|m4/(lt|libtool)|aclocal.m4' | sort)

check "every file names its licence" "$(for f in $sources $scripts; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || echo "$f"
done)"
check "no file over 600 lines" "$(wc -l $sources | awk '$2 != "total" && $1 > 600 {print $2 ": " $1}')"
check "no line over 100 columns" "$(awk 'length($0) > 100 {print FILENAME ":" FNR}' $code)"
check "no trailing blanks" "$(grep -nE '[[:blank:]]+$' $sources $scripts | cut -d: -f1,2)"
check "nothing of ours ends the host program" \
	"$(grep -nE '(^|[^a-z_])(exit|_exit|abort|raise)\(' $(printf '%s\n' $code | grep -E '^(src|shim)/') |
		grep -vE 'src/base/msg\.c|src/driver/(sim|null)|src/heap/simt\.c|/\*|^\S+\s+\*')"

check "gpumem(7) documents every knob with its default" "$(
	sed -n 's/^GM_KNOB([a-z_]*, *[A-Z_]*, *\(GPUMEM_[A-Z_]*\), *"\([^"]*\)".*/\1 \2/p' src/knob/knob.def |
		while read -r knob value; do
			awk -v knob="$knob" -v value="$value" '
				$0 ~ "^\\.It Ev " knob "( |$)" {here = 1; found = 1}
				here && index($0, "Default:") {ok = value == "" || index($0, value); here = 0}
				END {exit !(found && ok)}' man/gpumem.7 || echo "$knob ($value)"
		done)"
check "gpumem-log(5) documents every counter" "$(
	sed -n 's/^GM_COUNTER([A-Z]*, *[A-Z]*, *\([a-z0-9_]*\),.*/\1/p' src/log/counters.def |
		while read -r counter; do grep -qw "$counter" man/gpumem-log.5 || echo "$counter"; done)"
check "gpumem-log(5) documents every kind of record" "$(
	sed -n 's/.*GM_KIND([0-9]*, *\([A-Z_]*\),.*/\1/p' src/log/record.h |
		while read -r kind; do grep -qw "$kind" man/gpumem-log.5 || echo "$kind"; done)"

if command -v mandoc >/dev/null; then
	check "the manual pages are well-formed" "$(mandoc -T lint -W warning man/*.[1357] 2>&1)"
else
	skip "the manual pages are well-formed" "mandoc is not installed"
fi
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
	check "clang-format 14 would change nothing" \
		"$(clang-format --dry-run $code 2>&1 | sed -n 's/: warning: .*//p')"
else
	skip "clang-format 14 would change nothing" "clang-format 14 is not installed"
fi
check "NEWS begins with the release" \
	"$(head -n 1 NEWS | grep -qE '^Noteworthy changes in release [0-9.]+ \([0-9?-]+\)$' || head -n 1 NEWS)"
echo "1..$n"
exit $bad
