# SPDX-License-Identifier: BSD-3-Clause
# bats.sh [--] FILE [OPTION OF BATS]...: run one .bats file as a test. Automake puts "--" before its name. Without
# bats the whole file is skipped.
[ "$1" != -- ] || shift
command -v bats >/dev/null || { echo '1..0 # SKIP bats is not installed'; exit 0; }
# Preloaded processes ask each other for idle memory. Those of tests that run at the same time do not.
export SIM_GPU=$$
file=$1
shift
exec bats --tap "$@" "$file"
