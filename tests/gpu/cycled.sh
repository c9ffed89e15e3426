#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cycled.sh COMMAND...: run it, and ask it every 500 ms to sleep; natively that fails. It wakes by itself.
here=$(cd "$(dirname "$0")" && pwd)
"$@" &
program=$!
while sleep 0.5 && kill -0 $program 2>/dev/null; do
	env -u LD_PRELOAD "$here/gpumemstat" sleep $program >/dev/null 2>&1
done
wait $program
