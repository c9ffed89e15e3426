#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# costs.sh show|keep KEPT: read the .cost files (cost.sh) below the current folder. show: print the CPU seconds of
# all, the ten dearest, and what was added since KEPT was written: tests that are new, and those that take half as
# much again and a second more. Machines differ: the seconds of KEPT are scaled by the median ratio. A test of
# another build, such as sanitize/tests/unit/test_x, has no row in KEPT, and is not compared. keep: write KEPT,
# "SECONDS TEST" a line.
how=$1 kept=$2
seconds() {
	find . -name '*.cost' | sed 's|^\./||' | sort | xargs awk '
		FNR == 2 {
			split($1 "m" $2, t, /[ms]+/)
			printf "%.2f %s\n", t[1] * 60 + t[2] + t[3] * 60 + t[4], substr(FILENAME, 1, length(FILENAME) - 5)
		}'
}
case $how in
keep)
	seconds >"$kept"
	;;
show)
	seconds | sort -rn | awk -v kept="$kept" '
		function more(now, test,    before) {
			if (test !~ /^tests\// || !n)
				return ""
			before = scale * seconds[test]
			if (!before)
				return now >= 0.5 ? sprintf("%.1f s, new", now) : ""
			return now > 1.5 * before && now > before + 1 ? sprintf("%.1f s, before %.1f", now, before) : ""
		}
		BEGIN {
			while ((getline line <kept) > 0) {
				split(line, part, " ")
				seconds[part[2]] = part[1]
			}
		}
		{
			now[NR] = $1
			test[NR] = $2
			all += $1
			if (seconds[$2] >= 1)
				ratio[++n] = $1 / seconds[$2]
		}
		END {
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && ratio[j] < ratio[j - 1]; j--) {
					swap = ratio[j]
					ratio[j] = ratio[j - 1]
					ratio[j - 1] = swap
				}
			scale = n ? ratio[int((n + 1) / 2)] : 1
			printf "CPU time of %d tests: %.0f s; the dearest:", NR, all
			for (i = 1; i <= NR && i <= 10; i++)
				printf("%s %s %.1f", i == 1 ? "" : ",", test[i], now[i])
			printf "\n"
			for (i = 1; i <= NR; i++)
				if ((added = more(now[i], test[i])) != "")
					printf "added: %s: %s\n", test[i], added
		}'
	;;
*)
	echo "usage: costs.sh show|keep KEPT" >&2
	exit 2
	;;
esac
