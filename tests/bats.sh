# SPDX-License-Identifier: BSD-3-Clause
# Run one .bats file as a test (Automake puts "--" before its name); where bats is not installed, it is skipped as a whole.
[ "$1" != -- ] || shift
command -v bats >/dev/null || { echo '1..0 # SKIP bats is not installed'; exit 0; }
exec bats --tap "$1"
