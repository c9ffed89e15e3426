#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every wrong value of every knob: one exact line, and the program is unharmed; the same for `env` and -e.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"
source "$BATS_TEST_DIRNAME/knobs.bash"

# each_wrong FUNCTION [NUMBER]: call FUNCTION NAME VALUE WHY DEFAULT for every wrong value of every knob, or
# for NUMBER values.
each_wrong() {
	local type name default argument value values why
	native=$("$DEMO" 3)
	while IFS='^' read -r type name default argument; do
		wrong_of "$type" "$argument"
		for value in "${values[@]:0:${2:-99}}"; do
			"$1" "$name" "$value" "$why" "${default:-none}"
		done
		"$1" "$name" "$LONG" 'expected at most 4095 bytes' "${default:-none}"
	done < <(knobs)
}

# quiet_but KNOB: the other settings that a run without files needs.
quiet_but() {
	[ "$1" = GPUMEM_LOG ] || echo GPUMEM_LOG=off
}

@test "the tests read every row of knob.def" {
	[ "$(knobs | wc -l)" -eq "$(grep -c '^GM_KNOB(' "$KNOB_DEF")" ]
	[ "$(knobs | wc -l)" -ge 11 ]
}

@test "every wrong value of every knob is reported, and the default is used" {
	check() {
		unharmed "gpumem: $1=$(shown_value "$2"): $3; using $4" $(quiet_but "$1") "$1=$2"
	}
	each_wrong check
}

@test "a value of 4095 bytes is accepted, a longer one is reported" {
	longest=$(printf 'x%.0s' {1..4095})
	native=$("$DEMO" 3)
	unharmed '' GPUMEM_LOG=off GPUMEM_PROGRAM="$longest"
	unharmed "gpumem: GPUMEM_PROGRAM=$(shown_value x"$longest"): expected at most 4095 bytes; using none" \
		GPUMEM_LOG=off GPUMEM_PROGRAM=x"$longest"
	# The lengths of other knobs do not count.
	unharmed "gpumem: GPUMEM_MODE=$(shown_value "$longest"): expected one of pool, trace; using pool" \
		GPUMEM_LOG=off GPUMEM_LOG_NAME="$longest" GPUMEM_PROGRAM="$longest" GPUMEM_MODE="$longest"
	unharmed "gpumem: log $(shown_value "$longest"): File name too long; the program goes on without one" GPUMEM_LOG_NAME="$longest"
	# Substituted text counts, too.
	words=$(printf '%%e%.0s' {1..2000})
	unharmed "gpumem: log $(shown_value "$words"): File name too long; the program goes on without one" GPUMEM_LOG_NAME="$words"
}

@test "the largest values of sizes and times are accepted" {
	native=$("$DEMO" 3)
	unharmed '' GPUMEM_LOG=events,5124095h GPUMEM_LOG_NAME=large.gml GPUMEM_LOG_LIMIT=16777215T GPUMEM_LIMIT=16777215T
	"$TOOL" --json large.gml >json
	jq -e '.logs[0].contradiction == null and .logs[0].complete' json
	# The first sample, and the one at the end.
	jq -e '.logs[0].devices[0].counters | .samples == 2 and .allocate_calls > 0' json
}

@test "a knob of an earlier version is reported, with what replaces it" {
	native=$("$DEMO" 3)
	sed -n 's/^GM_REMOVED(\([A-Z_]*\), *"\(.*\)")$/\1^\2/p' "${KNOB_DEF%knob.def}removed.def" >removed
	[ "$(wc -l <removed)" -ge 6 ]
	while IFS='^' read -r name by; do
		unharmed "gpumem: $name is not a knob any more${by:+; $by replaces it}" GPUMEM_LOG=off "$name=1"
		expect 2 "gpumemstat: -e $name=1: $name is not a knob any more${by:+; $by replaces it}
Try 'gpumemstat run --help'" run -e "$name=1" true
	done <removed
}

@test "GPUMEM_VERBOSE=0 prints nothing about bad knobs" {
	check() {
		[ "$1" = GPUMEM_VERBOSE ] || unharmed '' $(quiet_but "$1") GPUMEM_VERBOSE=0 "$1=$2"
	}
	each_wrong check 1
}

@test "a program that fails natively fails with a bad knob, too" {
	status=0
	SIM_MEMORY=4M "$DEMO" 100 >native 2>native.err || status=$?
	[ "$status" -ne 0 ]
	preloaded=0
	SIM_MEMORY=4M GPUMEM_LOG=off GPUMEM_MODE=fast LD_PRELOAD=$PRELOAD "$DEMO" 100 >out 2>err || preloaded=$?
	[ "$status" -eq "$preloaded" ]
	diff native out
	diff <(echo 'gpumem: GPUMEM_MODE=fast: expected one of pool, trace; using pool' && cat native.err) \
		<(grep -v '^gpumem: out of memory on device 0: ' err)
}

@test "unknown names are reported with the nearest knob" {
	native=$("$DEMO" 3)
	while IFS='^' read -r _ name _; do
		unharmed "gpumem: ${name}X is not a knob; did you mean $name?" GPUMEM_LOG=off ${name}X=1
		unharmed "gpumem: ${name/_/__} is not a knob; did you mean $name?" GPUMEM_LOG=off ${name/_/__}=1
	done < <(knobs)
	unharmed 'gpumem: GPUMEM_ is not a knob; see gpumem-knobs(7)' GPUMEM_LOG=off GPUMEM_=1
	unharmed 'gpumem: GPUMEM_\x1b[31m\n is not a knob; see gpumem-knobs(7)' GPUMEM_LOG=off $'GPUMEM_\e[31m\n=1'
	unharmed 'gpumem: GPUMEM_\xff\xfe_PIGMENT is not a knob; see gpumem-knobs(7)' GPUMEM_LOG=off $'GPUMEM_\xff\xfe_PIGMENT=1'
	unharmed "gpumem: GPUMEM_${LONG:0:393}... is not a knob; see gpumem-knobs(7)" GPUMEM_LOG=off GPUMEM_$LONG=1
	# Names without the prefix.
	unharmed '' GPUMEM_LOG=off gpumem_mode=1 GPUMEMORY=1 GPUMEM=1 XGPUMEM_MODE=1
}

@test "several bad knobs: a line each, in the order of knob.def, then unknown names" {
	native=$("$DEMO" 3)
	unharmed 'gpumem: GPUMEM_ENABLE=: expected 0 or 1; using 1
gpumem: GPUMEM_LIMIT=0: expected a size such as 512M, or a percentage up to 100%; using 100%
gpumem: GPUMEM_LOG=x\ny: expected one of off, small, events, and perhaps a comma and a time; using small
gpumem: GPUMEM_MODE=fast: expected one of pool, trace; using pool
gpumem: GPUMEM_VERBOSE=9: expected one of 0, 1, 2, 3, 4; using 1
gpumem: GPUMEM_MODES is not a knob; did you mean GPUMEM_MODE?' \
		GPUMEM_VERBOSE=9 GPUMEM_MODES=1 GPUMEM_MODE=fast GPUMEM_LIMIT=0 GPUMEM_ENABLE= GPUMEM_LOG=$'x\ny'
}

@test "a program that does not use CUDA reports no bad knob" {
	check() {
		[ -z "$(env "$1=$2" LD_PRELOAD="$PRELOAD" true 2>&1)" ]
	}
	each_wrong check 1
}

@test "gpumemstat env and -e report the same bad knobs" {
	check() {
		local said
		said="$1=$(shown "$2"): $3"
		# env decides as the library does; it shows all of a long value.
		env "$1=$2" "$TOOL" env --json >out 2>err
		[ "$(<err)" = "gpumemstat: $said; using $4" ] || { cat err; return 1; }
		jq -e --arg name "$1" '.knobs[] | select(.name == $name) | .value == .default and .source == "default, refused"' out >/dev/null
		misused run "-e $said" run -e "$1=$2" true
	}
	each_wrong check 4
}
