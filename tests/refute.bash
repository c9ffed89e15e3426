# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files, which notice `! COMMAND` only where it is the last of a test (tests/lint/ignored.sh).

# refute COMMAND...: it must say no by status 1; what it cannot tell, such as of a file that is not there, is another one.
refute() {
	local status=0
	"$@" || status=$?
	[ "$status" -eq 1 ] || {
		echo "status $status of: $*" >&2
		return 1
	}
}
