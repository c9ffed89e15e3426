# SPDX-License-Identifier: BSD-3-Clause
# Several processes of tests/preload/sleeps, each with a name, and the commands that they obey. In a folder of their own.

several_setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	cd "$BATS_TEST_TMPDIR"
	TOOL=$PROGRAMS/../../gpumemstat
	export SIM_MEMORY=256M SIM_SHARE=$BATS_TEST_TMPDIR/device
	WITHIN=()
	NAMER=
	declare -gA PID JOB TO FROM
}

several_teardown() {
	local pid
	for pid in "${PID[@]}" $NAMER; do kill -9 "$pid" 2>/dev/null || true; done
}

# In a child: with an end of the pipes of another process, that process would not see the end of its input.
pipes_close() {
	local end
	for end in "${TO[@]}" "${FROM[@]}" 3; do exec {end}>&-; done
}

# start NAME: a process that obeys `says NAME COMMAND ANSWER`, preloaded with KNOBS; native NAME: without.
start() {
	local line how=preloaded
	[ "$1" != native ] || { how=native; shift; }
	mkfifo "$1.in" "$1.out"
	(
		pipes_close
		"$how" "${WITHIN[@]}" "$PROGRAMS/sleeps" hold <"$1.in" >"$1.out" 2>"$1.said"
	) &
	JOB[$1]=$!
	exec {TO[$1]}>"$1.in" {FROM[$1]}<"$1.out"
	read -r line PID[$1] <&"${FROM[$1]}"
	[ "$line" = ready ]
}

# found NAME: other processes can find it. The first idle memory of a process starts the thread that joins.
found() {
	until grep -q "@gpumem1/$(id -u)/.*/${PID[$1]}-" /proc/net/unix; do sleep 0.01; done
}

says() {
	local line
	echo "$2" >&"${TO[$1]}"
	read -r line <&"${FROM[$1]}"
	echo "$1: $2: $line"
	[ "$line" = "$3" ]
}

# ends NAME: of its own accord, with status 0.
ends() {
	exec {TO[$1]}>&- {FROM[$1]}<&-
	unset "TO[$1]" "FROM[$1]"
	wait "${JOB[$1]}" || { cat "$1.said"; return 1; }
	ENDED=${PID[$1]}
	unset "PID[$1]"
}

# counted FILTER: of the device's counters in the log of the process that ended last.
counted() {
	"$TOOL" summary --json "$ENDED.gml" | jq -e ".logs[0].devices[0].counters | $1"
}
