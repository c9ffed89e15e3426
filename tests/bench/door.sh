#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of the door of residency/door.h for a submission while nothing moves: times, and counted instructions
# of gm_door_enter and gm_door_leave with the loop around them. Run in the build folder by make bench-door. A time is
# never a failure.
set -eu
tests/bench/door
command -v valgrind >/dev/null 2>&1 || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# counted KIND N: the instructions of a whole run with N submissions.
counted()
{
	valgrind --tool=callgrind --callgrind-out-file="$scratch/callgrind" tests/bench/door "$1" "$2" >/dev/null 2>&1
	sed -n 's/^totals: \([0-9]*\).*/\1/p' "$scratch/callgrind"
}

for kind in unused open; do
	few=$(counted "$kind" 1000)
	many=$(counted "$kind" 11000)
	echo "$kind: $(((many - few) / 10000)) instructions a submission, counted by valgrind"
done
