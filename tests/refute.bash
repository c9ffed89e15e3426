# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files: bats notices `! COMMAND` only as the last command of a test
# (tests/lint/ignored.sh).

# refute COMMAND...: it must fail with status 1; an error, such as a missing file, has another status.
refute() {
	local status=0
	"$@" || status=$?
	[ "$status" -eq 1 ] || {
		echo "status $status of: $*" >&2
		return 1
	}
}
