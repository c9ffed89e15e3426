#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ignored.sh FILE...: the assertions of .bats files and their helpers that cannot fail (ignored.awk). bash itself brings the
# file into a form with one statement a line: it reads the whole file as the body of a function, and runs nothing of it.
here=$(dirname "$0")
for file; do
	{
		echo 'whole() {'
		sed = "$file" | sed 'N; s/^\([0-9]*\)\n@test .*{$/test_\1() {/; s/^[0-9]*\n//'
		echo '}; declare -f whole'
	} | bash | awk -v file="$file" -f "$here/ignored.awk"
done
