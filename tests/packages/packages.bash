# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder, which print TAP. Run in the build folder.
. "${BASH_SOURCE%/*}/../refute.bash"
BUILD=$PWD
TOP=$(cd "${BASH_SOURCE%/*}/../.." && pwd)
SIM=$BUILD/tests/sim/lib
DEMO=$BUILD/tests/workloads/demo
VERSION=$(cat "$TOP/VERSION")
WORK=$(mktemp -d "${TMPDIR:-/tmp}/packages.XXXXXX") || exit 99
trap 'rm -rf "$WORK"' EXIT
n=0 bad=0

# Nothing of the build, nor of the caller's settings, helps the package.
export LC_ALL=C COLUMNS=80 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 SIM_GPU=$$
unset LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONHOME MANPATH PKG_CONFIG_PATH NO_COLOR SLURM_JOB_ID SLURM_PROCID
unset "${!GPUMEM_@}"
export GPUMEM_TEST_CONF=

# all_skipped REASON
all_skipped() {
	echo "1..0 # SKIP $1"
	exit 0
}

# skip REASON: end the present test.
skip() {
	echo "$1" >"$WORK/skipped"
	exit 0
}

# try FUNCTION TITLE: run a test, in a shell that ends at the first command that fails. Its output is shown
# if it fails.
try() {
	local status words=
	n=$((n + 1))
	rm -f "$WORK/skipped"
	(
		set -e -o pipefail
		"$1"
	) >"$WORK/said" 2>&1 </dev/null
	status=$?
	[ ! -f "$WORK/skipped" ] || words=" # SKIP $(cat "$WORK/skipped")"
	if [ $status = 0 ]; then
		echo "ok $n - $2$words"
	else
		echo "not ok $n - $2"
		sed 's/^/# /' "$WORK/said"
		echo "# exit status $status"
		bad=1
	fi
}

# same EXPECTED FOUND
same() {
	[ "$1" = "$2" ] || {
		diff <(printf '%s\n' "$1") <(printf '%s\n' "$2")
		return 1
	}
}

finish() {
	echo "1..$n"
	exit $bad
}
