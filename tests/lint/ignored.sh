#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ignored.sh FILE...: print the assertions of .bats files and their helpers that cannot fail (ignored.awk).
# bash itself puts each statement on its own lines: it parses the file as a function that is never called.
here=$(dirname "$0")
for file; do
	{
		echo 'whole() {'
		sed = "$file" | sed 'N; s/^\([0-9]*\)\n@test .*{$/test_\1() {/; s/^[0-9]*\n//'
		echo '}; declare -f whole'
	} | bash | awk -v file="$file" -f "$here/ignored.awk"
done
