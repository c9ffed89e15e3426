#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test.sh SRCDIR TEST [TITLE]: run one test in the build folder, as `make check` does, with its TAP on standard
# output; of a .bats file, the tests whose titles contain TITLE.
srcdir=$1 test=$2 title=$3
case $test in
*.bats)
	if [ -n "$title" ]; then
		set -- --filter "$(printf '%s\n' "$title" | sed 's/[][\\.*^$+?(){}|]/\\&/g')"
	else
		set --
	fi
	exec sh "$srcdir/tests/bats.sh" "$srcdir/$test" "$@"
	;;
*.sh) exec "$srcdir/$test" ;;
*) exec $LOG_COMPILER "./$test" ;;
esac
