#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fuzz.sh SRCDIR SECONDS HARNESS...: each harness under libFuzzer with AddressSanitizer and UBSan for its
# share of the time, in the subfolder "fuzz", which keeps failing inputs. Prints the runs and their coverage,
# in the format of tests/fuzz/RESULTS. Fails if any input fails.
top=$1 seconds=$2
shift 2
case $seconds in '' | *[!0-9]* | 0) echo "fuzz.sh: SECONDS=$seconds: expected a number from 1 on" >&2; exit 2 ;; esac
share=$(((seconds + $# - 1) / $#))
mkdir -p fuzz || exit 1
flags="-std=gnu11 -D_GNU_SOURCE -g -O1 -include config.h -I$top/src -I$top -I. $FUZZ_CPPFLAGS"

# The sources of a harness beside itself, and those reported.
sources_of() {
	[ "$1" != reader ] || { reported_of "$1"; return; }
	[ "$1" = log ] || { echo "$top"/src/image/*.c; return; }
	for folder in base knob log driver node context pool copy residency image; do echo "$top/src/$folder"/*.c; done
	echo "$top"/tools/*.c "$top"/tools/*/*.c tools/report/page.S -Dmain=gm_tool_main
}
reported_of() {
	[ "$1" != reader ] || { echo "$top/programs/common/reader.c" "$top/programs/common/coordinates.c"; return; }
	[ "$1" = log ] || { echo "$top"/src/image/*.c; return; }
	for file in src/log/load src/log/read src/log/things src/log/check tools/log/alive tools/log/blocks tools/log/moment \
		tools/log/oom tools/log/cache tools/log/owners tools/stack/frames tools/stack/lines tools/stack/fold \
		tools/output/emit tools/command/hist tools/command/live tools/command/map; do echo "$top/$file.c"; done
}

echo "$(date -u +%Y-%m-%d), $(${FUZZ_CC:-clang} --version | head -n 1)"
for harness; do
	set -- "$top/tests/fuzz/fuzz_$harness.c" $(sources_of $harness)
	${FUZZ_CC:-clang} $flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all "$@" -o "fuzz/$harness" -ldl \
		-lpthread -lm || exit 1
	mkdir -p "fuzz/corpus_$harness"
	dict=$top/tests/fuzz/$harness.dict
	[ -f "$dict" ] && dict=-dict=$dict || dict=
	"fuzz/$harness" -max_total_time="$share" -max_len=65536 -rss_limit_mb=4096 -malloc_limit_mb=1024 -print_final_stats=1 \
		-artifact_prefix="fuzz/$harness." $dict "fuzz/corpus_$harness" "$top/tests/fuzz/corpus/$harness" \
		2>"fuzz/$harness.said" || { tail -n 40 "fuzz/$harness.said" >&2; exit 1; }
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz/$harness.said")
	edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "fuzz/$harness.said" | tail -n 1)
	kept=$(find "fuzz/corpus_$harness" "$top/tests/fuzz/corpus/$harness" -type f | wc -l)
	echo "$harness: $share s, $runs executions, $edges edges, $kept inputs"
	# The lines that all inputs together run.
	${FUZZ_CC:-clang} $flags -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping "$@" -o "fuzz/$harness.cov" \
		-ldl -lpthread -lm || exit 1
	LLVM_PROFILE_FILE=fuzz/$harness.raw "fuzz/$harness.cov" -runs=0 "fuzz/corpus_$harness" \
		"$top/tests/fuzz/corpus/$harness" >/dev/null 2>&1 && llvm-profdata merge "fuzz/$harness.raw" -o \
		"fuzz/$harness.profile" && llvm-cov report "fuzz/$harness.cov" -instr-profile="fuzz/$harness.profile" \
		$(reported_of $harness) 2>/dev/null | awk -v top="$top/" '
			$1 ~ /\.c$/ && $8 > $9 {sub(/.*\//, "", $1); printf "    %-12s %5d of %5d lines, %s\n", $1, $8 - $9, $8, $10}'
done
