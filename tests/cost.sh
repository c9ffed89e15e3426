#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cost.sh COMMAND... --trs-file FILE.trs ...: run the driver of a test. FILE.cost gets the CPU time of the test
# and of all its children: the second line of `times`, user and system, as 0m1.23s 0m4.56s.
file= before=
for word; do
	[ "$before" != --trs-file ] || file=${word%.trs}.cost
	before=$word
done
"$@"
status=$?
[ -z "$file" ] || times >"$file"
exit $status
