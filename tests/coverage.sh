#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# coverage.sh SRCDIR MINIMUM: print the line coverage of each file of api/, shim/ and src/; fail if the total
# is below MINIMUM percent. Run it after the tests, in a build folder of --enable-coverage. The simulated
# drivers replace the device, and gpumemstat is no part of the library: their totals are shown but not
# counted. Assembler is not measured. A line compiled several times (a header, device code in its tests)
# counts as run if any copy was run.
top=$(cd "$1" && pwd) || exit 1
find api src shim tools tests/sim tests/unit -name '*.gcno' | sort | while read -r object; do
	${GCOV:-gcov} --stdout "$object" 2>/dev/null # its errors are about code that was never run
done | awk -F: -v top="$top/" -v minimum="$2" '
	function group(f) {
		return f ~ /^src\/(sim\/|driver\/null)/ ? "simulated drivers" : f ~ /^tools/ ? "gpumemstat" : "the libraries"
	}
	function row(name, hit, lines) {
		return sprintf("%-32s %6d of %6d  %5.1f %%", name, hit, lines, 100 * hit / lines)
	}
	$2 + 0 == 0 {
		if ($3 == "Source")
			file = index($4, top) == 1 ? substr($4, length(top) + 1) : ""
		next
	}
	file !~ /^(api|src|shim|tools)\// || $1 ~ /-$/ { next }
	!((file, $2) in run) {
		run[file, $2] = 0
		lines[file]++
	}
	$1 ~ /[0-9]/ && !run[file, $2] {
		run[file, $2] = 1
		hit[file]++
	}
	END {
		for (f in lines) {
			all[group(f)] += lines[f]
			got[group(f)] += hit[f]
			if (group(f) == "the libraries")
				print row(f, hit[f], lines[f]) | "sort"
		}
		close("sort")
		print ""
		g = "the libraries"
		if (!all[g]) {
			print "coverage: nothing was measured"
			exit 1
		}
		for (other in all)
			if (other != g)
				print row(other " (not counted)", got[other], all[other])
		print row(g, got[g], all[g])
		if (100 * got[g] < minimum * all[g]) {
			printf "coverage: below %s %%\n", minimum
			exit 1
		}
	}'
