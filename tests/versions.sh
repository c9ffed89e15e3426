#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# versions.sh TESTS VERSION:SKIPPED...: run the tests on simulated drivers of each version, and stop at the first on which
# one fails. Exactly SKIPPED tests must say that they need a newer driver, so that they cannot all do so unnoticed.
tests=$1
shift
for row; do
	version=${row%:*} expected=${row#*:}
	echo "== driver $version"
	SIM_DRIVER=$version $MAKE check TESTS="$tests" || exit 1
	skipped=$(for t in $tests; do cat "${t%.bats}.log"; done | grep -c '^ok .*# skip needs driver ')
	echo "== driver $version: $skipped tests need a newer one"
	[ "$skipped" -eq "$expected" ] || { echo "versions.sh: not $expected" >&2; exit 1; }
done
