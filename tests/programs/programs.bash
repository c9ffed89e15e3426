# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files here: $PROGRAM is a program of programs/ on the simulated driver.

. "$BATS_TEST_DIRNAME/../refute.bash"

# In setup: program NAME
program() {
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	NAME=$1 PROGRAM=$PWD/tests/programs/$1 TOOL=$PWD/gpumemstat
	export LD_LIBRARY_PATH=$PWD/tests/sim/lib GPUMEM_LOG=off LC_ALL=C
	cd "$BATS_TEST_TMPDIR" || return 1
}

# values KEY FILE: the value of that key in each line
values() {
	grep -oE " $1=[^ ]*" "$2" | cut -d= -f2
}

# AddressSanitizer warns about the emulation of lanes, which changes stacks: removes that line from err.
said() {
	sed -i '/WARNING: ASan doesn.t fully support makecontext/d' err
}

# ends STATUS ARGUMENT...: runs the program, which ends with STATUS; its output is in `out` and `err`
ends() {
	local status=0
	(exec -a "$NAME" "$PROGRAM" "${@:2}") >out 2>err || status=$?
	said
	echo "status $status: $(cat err)"
	[ "$status" -eq "$1" ]
}

# counted COUNTER PATTERN: the log of the last preloaded run has that counter, and its value matches the
# pattern
counted() {
	"$TOOL" summary --json run.gml >json
	grep -qE "\"$1\": *$2[,}]" json
}

# preloaded ARGUMENT...: it prints the same as natively, but for times, and the pool serves every allocation.
preloaded() {
	"$PROGRAM" "$@" >native
	rm -f run.gml
	GPUMEM_LOG=small GPUMEM_LOG_NAME=run.gml LD_PRELOAD=$GPUMEM_TEST_PRELOAD "$PROGRAM" "$@" >preloaded 2>err
	said
	sed -i 's/ total_ms=.*//' native preloaded
	[ ! -s err ]
	[ -s native ]
	diff -u native preloaded
	counted allocate_driver 0
	counted allocate_pool '[1-9][0-9]*'
}

# leaks_nothing ARGUMENT...
leaks_nothing() {
	SIM_LEAKS=1 "$PROGRAM" "$@" >out 2>err
	refute grep 'leaked allocation' err
}

# too_small MEMORY ARGUMENT...: a device of so much memory is too small, which is the only message
too_small() {
	SIM_MEMORY=$1 ends 1 "${@:2}"
	[ ! -s out ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -qE "^$NAME: the device has no [0-9]+ bytes: " err
}

# keys FILE: the keys of the first line
keys() {
	head -n 1 "$1" | tr ' ' '\n' | tail -n +2 | cut -d= -f1 | paste -sd' '
}

# helps OPTION...: --help has a line for each of them, and the usage of the program
helps() {
	local option
	"$PROGRAM" --help >help
	head -n 1 help | grep -qx "Usage: $NAME \[OPTION\]..."
	for option in "$@" help; do
		grep -qE "^ .* --$option\b" help
	done
}

# refuses ROWS: standard input has ROWS rows OPTIONS|SAID; each run ends with status 2 and that one line after
# the program's name, and has no other output
refuses() {
	local options said rows=0
	while IFS='|' read -r options said; do
		echo "$options"
		# shellcheck disable=SC2086
		ends 2 $options
		[ "$(cat err)" = "$NAME: $said" ]
		[ ! -s out ]
		rows=$((rows + 1))
	done
	[ "$rows" -eq "$1" ]
}

# finds ROWS VARIABLE WAY ARGUMENT...: standard input has ROWS rows FAULT|SAID; with that value of the
# variable a run of WAY is wrong, and ends with status 1 and that one line
finds() {
	local fault said rows=0
	while IFS='|' read -r fault said; do
		(export "$2=$fault" && ends 1 --verify --untimed --way="$3" "${@:4}")
		grep -q ' verified=no' out
		[ "$(cat err)" = "$NAME: $3: $said" ]
		rows=$((rows + 1))
	done
	[ "$rows" -eq "$1" ]
}
