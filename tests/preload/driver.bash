# SPDX-License-Identifier: BSD-3-Clause
# Sourced by behaviour.bash and resolve.bash.

# needs_driver 12.0: skip where SIM_DRIVER is older. How many do so on each version is in tests/checks.mk.
needs_driver() {
	[ "$(printf '%s\n' "$1" "${SIM_DRIVER:-13.0}" | sort -V | head -n 1)" = "$1" ] || skip "needs driver $1"
}
