#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A thousand shell commands without CUDA, in a folder with the file "words".
set -e
i=0
while [ $i -lt 100 ]; do
	env true
	ls
	cat words | tr a-z A-Z
	grep -c e words
	sed -n '2s/o/0/gp' words
	sort -r words | head -n 1
	expr $i + 1
	sh -c 'basename "$0" .sh; exec >&2; echo to standard error'
	i=$((i + 1))
done
