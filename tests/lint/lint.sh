#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules for every file of the project; prints TAP. Run with the source folder as argument, or $srcdir set.
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

sources=$(find api src shim programs tools tests -name '*.[chS]' -o -name '*.def' -o -name '*.cu' -o -name '*.cc' | sort)
code=$(printf '%s\n' "$sources" | grep -E '\.([ch]|cu|cc)$')
scripts=$(find . -name '.?*' -prune -o -path ./build -prune -o -path './gpumem-*' -prune -o \( -name '*.sh' -o -name '*.bats' -o -name '*.py' \
	-o -name '*.mk' -o -name '*.m4' \) -print | grep -vE '/(build-aux|(gpu|bench)-bundle)/|m4/(lt|libtool)|aclocal.m4' | sort)

pages=$(find tools -name '*.html' -o -name '*.css' -o -name '*.js' | sort)

check "every file names its licence" "$(for f in $sources $scripts $pages; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || echo "$f"
done)"
check "no file over 600 lines" "$(wc -l $sources | awk '$2 != "total" && $1 > 600 {print $2 ": " $1}')"
check "no line over 100 columns" "$(awk 'length($0) > 100 {print FILENAME ":" FNR}' $code)"
check "no line over 110 columns in pages" "$(awk 'length($0) > 110 {print FILENAME ":" FNR}' $pages)"
check "no trailing blanks" "$(grep -nE '[[:blank:]]+$' $sources $scripts $pages | cut -d: -f1,2)"
check "nothing of ours ends the host program" \
	"$(grep -nE '(^|[^a-z_])(exit|_exit|abort|raise)\(' $(printf '%s\n' $code | grep -E '^(src|shim)/') |
		grep -vE 'src/base/msg\.c|src/driver/null|src/sim/|/\*|^\S+\s+\*')"

# A cancelled thread ends at a cancellation point of the C library. Exempt: the readers of logs, which run
# only in gpumemstat, and trim.c, which runs on gpumem's own thread.
points='open|openat|close|creat|read|write|pread|pwrite|readv|writev|poll|ppoll|select|nanosleep|clock_nanosleep|usleep|sleep'
points+='|pthread_cond_wait|pthread_cond_timedwait|pthread_join|sem_wait|fsync|fdatasync|msync|lockf|sigtimedwait|sigwait|fopen|fread'
points+='|fwrite|fclose|printf|fprintf|dprintf'
check "no cancellation point on threads of the program" \
	"$(grep -nE "(^|[^A-Za-z0-9_>.])($points)\(" $(printf '%s\n' $code | grep -E '^(src|shim)/') |
		grep -vE '^src/(driver/null|sim/|heap/(device|policies)/|log/(read|load|check)\.c)|^shim/idle/trim\.c|/\*|^\S+\s+\*' |
		grep -v '^src/base/lock\.c:.*pthread_cond_wait(condition, &lock->mutex)')"

# Calls on threads of the program. Headers are exempt: base/sys.h only declares such functions.
calls='gm_sys_[a-z_]+|syscall|mmap|munmap|memfd_create|dlopen|dl_iterate_phdr|readlink|gethostname|prctl|getpid|clock_gettime'
calls+='|sched_yield|gm_lock_wait|pthread_(mutex|rwlock|cond)_[a-z]*(lock|wait)|pthread_create|(cuEvent|cuCtx)Synchronize'
check "doc/host-calls.md names every file with a system call, a lock or a wait" "$(
	grep -lE "(^|[^A-Za-z0-9_])($calls)\(" $(printf '%s\n' $code | grep -E '^(src|shim|api)/.*\.[ch]$') |
		grep -vE '^src/(driver/|sim/|heap/(device|policies)/|log/(read|load|check)\.c|base/(sys|glibc)\.[ch]|.*\.h$)|^shim/idle/trim\.c' |
		while read -r file; do grep -qF "\`$file\`" doc/host-calls.md || echo "$file"; done)"

check "gpumem-knobs(7) documents every knob once, with a value to begin with and its default" "$(
	sed -n 's/^GM_KNOB([a-z_]*, *[A-Z_]*, *\(GPUMEM_[A-Z_]*\), *"\([^"]*\)".*/\1 \2/p' src/knob/knob.def |
		while read -r knob value; do
			awk -v knob="$knob" -v value="$value" '
				$0 ~ "^\\.It Ev " knob "( |$)" {here = 1; found++}
				here && /^Begin with / {begins = 1}
				here && /(^|[ .])Default: / {ok = value == "" || index($0, value); here = 0}
				END {exit !(found == 1 && begins && ok)}' man/gpumem-knobs.7 || echo "$knob ($value)"
		done)"
check "gpumem(7), for a first reading, has at most 350 lines and ten knobs, all known" "$(
	awk 'END {if (NR > 350) print NR " lines"}' man/gpumem.7
	knobs=$(sed -n 's/^\.It Ev \(GPUMEM_[A-Z_]*\)$/\1/p' man/gpumem.7)
	[ "$(printf '%s\n' "$knobs" | sort -u | wc -l)" = 10 ] || echo "knobs:" $knobs
	for knob in $knobs; do grep -q "^GM_KNOB([a-z_]*, *[A-Z_]*, *$knob," src/knob/knob.def || echo "$knob"; done)"
check "manual pages refer to pages that exist, and make install has all of them" "$(
	sed -n 's/.*Xr \(gpumem[a-z._-]*\) \([1-8]\).*/\1 \2/p' man/*.[1357] | sort -u |
		while read -r page section; do
			[ -f "man/$page.$section" ] || grep -qE "^\.Nm $page( ,)?$" man/*.$section || echo "$page($section)"
		done
	ls man/*.[1-8] | while read -r page; do grep -qx "dist_man_MANS += $page" man/local.mk || echo "$page: local.mk"; done)"
check "every policy of the heap is run on a GPU, but for the default" "$(
	sed -n 's/^GM_POLICY("\([^"]*\)".*/\1/p' src/heap/device/policy.def | grep -vx granule |
		while read -r policy; do
			grep -qE "^policy_\S+ .* heap +GPUMEM_HEAP=policy:$policy " tests/gpu/run.sh || echo "$policy"
		done)"
check "gpumem-log(5) documents every counter" "$(
	sed -n 's/^GM_COUNTER([A-Z]*, *[A-Z]*, *\([a-z0-9_]*\),.*/\1/p' src/log/counters.def |
		while read -r counter; do grep -qw "$counter" man/gpumem-log.5 || echo "$counter"; done)"
check "gpumem-log(5) documents every kind of record" "$(
	sed -n 's/.*GM_KIND([0-9]*, *\([A-Z_]*\),.*/\1/p' src/log/record.h |
		while read -r kind; do grep -qw "$kind" man/gpumem-log.5 || echo "$kind"; done)"

if command -v mandoc >/dev/null; then
	check "the manual pages are well-formed" "$(mandoc -T lint -W warning man/*.[1357] 2>&1)"
	# A word behind a flag in one macro is rendered as a flag. The flags listed here are real ones.
	check "no word of the manual pages is rendered as a flag" "$(for page in man/*.[1357]; do
		mandoc -T ascii "$page" | sed 's|.\x08||g' | grep -oE '(^|[[:blank:](])-[a-z][a-z-]{3,}' | tr -d '[:blank:](' |
			grep -vxE -e '-(lgpumem-core|lcuda|shared|std|arch)' | sed "s|^|$page: |"
	done)"
	# A word of a heading that names a macro is read as the macro: "In kernels" becomes "<kernels>".
	check "no heading of the manual pages is rendered as an include" "$(for page in man/*.[1357]; do
		mandoc -T ascii "$page" | sed 's|.\x08||g' | grep -E '^ {0,3}<' | sed "s|^|$page: |"
	done)"
else
	skip "the manual pages are well-formed" "mandoc is not installed"
	skip "no word of the manual pages is rendered as a flag" "mandoc is not installed"
	skip "no heading of the manual pages is rendered as an include" "mandoc is not installed"
fi
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
	check "clang-format 14 would change nothing" \
		"$(clang-format --dry-run $code 2>&1 | sed -n 's/: warning: .*//p')"
else
	skip "clang-format 14 would change nothing" "clang-format 14 is not installed"
fi
check "README's figures are those of the kept measurements" \
	"$(sed '/^## /,$d' doc/performance.md | awk -f tests/lint/figures.awk tests/bench/results/2026-11-27-H200-pool.csv tests/bench/results/2026-11-27-H200-copy.csv tests/bench/results/*-sleep/residency.csv tests/bench/results/*-fresh.csv tests/lint/figures.txt - README.md 2>&1)"
check "nothing promises that no memory is lost to fragmentation" \
	"$(grep -rniE '(never|no memory|nothing) lost to fragmentation' README.md NEWS doc man api)"
check "NEWS begins with the release" \
	"$(head -n 1 NEWS | grep -qE '^Noteworthy changes in release [0-9.]+ \([0-9?-]+\)$' || head -n 1 NEWS)"

documents=$(find . -name '.?*' -prune -o -path ./build -prune -o -path './gpumem-*' -prune -o -name '*.md' -print | sort)
check "no paragraph over 120 words and no line over 110 columns in Markdown" "$(awk -f tests/lint/markdown.awk $documents)"
check "README.md has at most 150 lines" "$(awk 'END {if (NR > 150) print NR}' README.md)"
ours=$(printf '%s\n' "$sources" | grep -E '^(api|programs|src|shim|tools)/')
check "no identifier has a word of tests/lint/words.txt" "$(awk -f tests/lint/words.awk tests/lint/words.txt $ours)"
# Headers first: a heading may be in the header alone.
check "each function under a heading of a held lock asserts it" "$(find src shim -name '*.[ch]' ! -path 'src/sim/*' |
	sort -t. -k2,2r -k1,1 | xargs awk -f tests/lint/locked.awk)"
check "call, life, device and trim name no module" \
	"$(grep -nE '#include "shim/(block|context|copy|export_table|foreign|ipc|kernel|library|sleep|torch)/' shim/{call,life,memory/device,idle/trim}.c)"
check "no include points upwards" "$(awk -f tests/lint/layers.awk tests/lint/layers.txt $ours)"

check "every header and table is named in a makefile, for the distribution" "$(
	makefiles=$(cat $(printf '%s\n' $scripts | grep -E '\.mk$') Makefile.am)
	printf '%s\n' $sources | grep -E '\.(h|def)$' | while read -r file; do
		grep -qwF "${file##*/}" <<<"$makefiles" || echo "$file"
	done)"

tests=$(printf '%s\n' "$code" | grep '^tests/' | grep -vx tests/tap.h; find tests -name '*.bats' | sort)
check "titles of tests stand alone: three words, the first not of tests/lint/titles.txt" \
	"$(awk -f tests/lint/titles.awk tests/lint/titles.txt $tests)"

# Tests of these checks on samples: each must find every fault, and nothing else.
check "no function is defined in two files" "$(find src shim tools api -name '*.c' ! -path 'src/sim/*' | sort | xargs awk -f tests/lint/twice.awk)"
check "a function that is defined in two files is found" "$([ "$(awk -f tests/lint/twice.awk <(echo 'void gm_one(int a)') <(echo 'bool *gm_one(void)') | wc -l)" = 1 ] ||
	echo 'it is not')"
check "words of identifiers are found" "$(diff <(grep -oE 'found [A-Za-z_]+' tests/lint/words.sample | sort) \
	<(awk -f tests/lint/words.awk tests/lint/words.txt tests/lint/words.sample | sed 's/.*: /found /' | sort))"
check "functions that do not assert a held lock are found" "$(diff <(printf 'found_%s\n' one two) <(awk -f tests/lint/locked.awk \
	tests/lint/locked.sample.h tests/lint/locked.sample.c | sed 's/.*: //'))"
check "titles that do not stand alone are found" "$(diff <(grep -n found tests/lint/titles.sample | cut -d: -f1) \
	<(awk -f tests/lint/titles.awk tests/lint/titles.txt tests/lint/titles.sample | cut -d: -f2 | uniq))"
check "long lines and paragraphs are found" "$(
	column=$(printf '%0110d' 0)
	{
		printf '# title\n\n'; printf 'w\n%.0s' {1..121}; printf '\n- w\n'; printf '  w\n%.0s' {1..118}; printf -- '- w\n'
		printf '\n%sx\n\n    %sx\n\n```\n%sx\n```\n| %sx |\n' $column $column $column $column
	} | awk -f tests/lint/markdown.awk | cut -d: -f2,3 | diff - <(printf '%s\n' '3: a paragraph of 121 words' '246: 111 columns' '248: 115 columns' '251: 111 columns'))"
check "includes that point upwards are found" "$(
	layers() { sed "s|^|#include \"|; s|$|\"|" | awk -v as="$1" -f tests/lint/layers.awk tests/lint/layers.txt - | cut -d' ' -f2-; }
	printf '%s\n' base/size.h log/log.h pool/shelf.h heap/heap.h nowhere/x.h shelf.h sim/sim.h | layers src/pool/trim.c |
		diff - <(printf '%s\n' heap/heap.h nowhere/x.h sim/sim.h)
	printf '%s\n' sim/sim.h sim/simt_cpu.h | layers src/heap/device/simt.h | diff - <(echo sim/sim.h)
	printf '%s\n' shim/shim.h heap/heap.h | layers src/takeover/load.c | diff - <(echo shim/shim.h))"
# The same for ignored.sh.
sample=tests/lint/ignored.sample
check "assertions that cannot fail are found" "$(
	tests/lint/ignored.sh $sample >/dev/null || echo "ignored.sh fails"
	diff <(grep -oE 'ignored (!= )?[0-9]+' $sample | sort) <(tests/lint/ignored.sh $sample | grep -oE 'ignored (!= )?[0-9]+' | sort))"
check "no test has one: use refute, or a line for each part of a && b" \
	"$(tests/lint/ignored.sh $(find tests -name '*.bats' -o -name '*.bash' | sort))"
echo "1..$n"
exit $bad
