#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# README's line that builds and installs, run unchanged. Its tools are stubs that record their calls.
source "$BATS_TEST_DIRNAME/cli.bash"

@test "README's line that builds and installs works, with and without a build by quickstart" {
	line=$(sed -n 's|^    \(\./autogen\.sh .*\)|\1|p' "$BATS_TEST_DIRNAME/../../README.md")
	[ -n "$line" ]
	for built in yes no; do
		rm -rf source
		mkdir -p source/tools
		[ $built = no ] || mkdir source/build
		for command in autogen.sh configure tools/make tools/ldconfig; do
			printf '#!/bin/sh\necho "%s${*:+ $*}" >>"%s"\n' "${command#*/}" "$PWD/source/called" >source/$command
		done
		printf '#!/bin/sh\nexec "$@"\n' >source/tools/sudo
		chmod +x source/autogen.sh source/configure source/tools/*
		(cd source && PATH=$PWD/tools:$PATH && eval "$line")
		diff -u - source/called <<-'END'
		autogen.sh
		configure
		make
		make install
		ldconfig
		END
	done
}
