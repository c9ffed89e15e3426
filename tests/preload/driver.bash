# SPDX-License-Identifier: BSD-3-Clause
# Sourced by behaviour.bash and resolve.bash.
. "${BASH_SOURCE%/*}/../refute.bash"

# frees_wait: skip with GPUMEM_FREE=defer: the test expects the opposite.
frees_wait() {
	[ "${GPUMEM_FREE:-sync}" = sync ] || skip "frees do not wait"
}

# needs_driver 12.0: skip where SIM_DRIVER is older. tests/skips.sh reads these lines.
needs_driver() {
	[ "$(printf '%s\n' "$1" "${SIM_DRIVER:-13.4}" | sort -V | head -n 1)" = "$1" ] || skip "needs driver $1"
}
