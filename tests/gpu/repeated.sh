#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# repeated.sh N COMMAND...: run it N times, one after the other, until one fails.
times=$1
shift
for ((i = 0; i < times; i++)); do
	"$@" || exit
done
