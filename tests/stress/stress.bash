# SPDX-License-Identifier: BSD-3-Clause
# Sourced by stress.sh and stress.bats: a run that was to use a feature must have used it.

# stress_proves SETTING: the condition on the sums of the logs' counters that the setting must fulfil.
stress_proves() {
	case " $1" in
	*" GPUMEM_COPY="*) echo '.copy_h2d_staged_calls > 0 and .copy_d2h_staged_calls > 0' ;;
	*" GPUMEM_SLEEP="*) echo '.sleeps > 0 and .wakes > 0' ;;
	*" GPUMEM_STACKS="*) echo '.stacks > 0' ;;
	*) echo true ;;
	esac
}

# stress_proved SETTING LOG...: the logs fulfil it.
stress_proved() {
	local sums
	sums=$(env -u LD_PRELOAD ASAN_OPTIONS=detect_leaks=0 ./gpumemstat summary --json "${@:2}" |
		jq '[.logs[].counters | {copy_h2d_staged_calls, copy_d2h_staged_calls, sleeps, wakes, sleep_refused, stacks}] |
			map(to_entries) | add | group_by(.key) | map({key: .[0].key, value: (map(.value // 0) | add)}) | from_entries')
	jq -e "$(stress_proves "$1")" <<<"$sums" >/dev/null || {
		echo "stress: with $1 the logs do not show that $(stress_proves "$1"):" $sums
		return 1
	}
}
