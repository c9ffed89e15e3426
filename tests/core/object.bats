#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The library as others use it: names, versions, header, pkg-config.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	CORE=$PWD/.libs/libgpumem-core.so.0
	HEADER=$BATS_TEST_DIRNAME/../../api/gpumem.h
}

@test "libgpumem-core has a soname, and no run path" {
	readelf -dW "$CORE" | grep -q 'SONAME.*\[libgpumem-core.so.0\]'
	readelf -dW "$CORE" | refute grep -E 'RPATH|RUNPATH|TEXTREL'
	readelf -dW "$CORE" | grep NEEDED | refute grep -E 'libcuda|libgpumem'
}

@test "libgpumem-core exports the functions of the header, each with a version" {
	nm -D --defined-only --with-symbol-versions "$CORE" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort >"$BATS_TEST_TMPDIR/exports"
	grep -oE '\bgpumem_[a-z_]+\(' "$HEADER" | grep -vE 'gpumem_(log|device)\(' | tr -d '(' | LC_ALL=C sort -u |
		sed 's/.*_\(sleep\|wake\)$/&@@GPUMEM_3/; s/.*_buffer_.*/&@@GPUMEM_2/; s/.*_heap_.*/&@@GPUMEM_1/; /@/!s/$/@@GPUMEM_0/' | diff -u - "$BATS_TEST_TMPDIR/exports"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/exports")" -eq 25 ]
	# No other export, least of all a name that the preload interposes.
	[ "$(nm -D --defined-only "$CORE" | grep -vc ' A GPUMEM_[0-3]$')" -eq 25 ]
}

@test "gpumem.h by itself is C11 and C++" {
	${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$HEADER"
	${CXX:-c++} -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c++ "$HEADER"
}

@test "an installed libgpumem-core is found by pkg-config, links and runs" {
	[ -z "$SANITIZE_LIB$COVERAGE" ] || skip "a sanitizer's runtime comes first"
	command -v pkg-config || skip "no pkg-config"
	local root=$BATS_TEST_TMPDIR/root prefix
	make -s install DESTDIR="$root" GPU_ARCHS_INSTALL= >/dev/null # the architectures that this folder has code for
	prefix=$(sed -n 's/^prefix=//p' api/gpumem.pc)
	libdir=$(cd "$root" && dirname "$(find . -name libgpumem-core.so.0 | head -n 1)")
	export PKG_CONFIG_PATH=$root/$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
	[ "$(pkg-config --modversion gpumem)" = "$(cat "$BATS_TEST_DIRNAME/../../VERSION")" ]
	local flags
	flags=$(pkg-config --cflags --libs gpumem)
	[[ $flags = *"-I$root$prefix/include"* && $flags = *-lgpumem-core* ]]
	${CC:-cc} -std=c11 -o "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_DIRNAME/plain.c" $flags
	${CXX:-c++} -o "$BATS_TEST_TMPDIR/plain++" -x c++ "$BATS_TEST_DIRNAME/plain.c" -x none $flags
	for program in plain plain++; do
		run env LD_LIBRARY_PATH="$root/$libdir:$SIM" "$BATS_TEST_TMPDIR/$program"
		[ "$output" = $'block, 0, 1024\n0\n801, 801' ]
		run env LD_LIBRARY_PATH="$root/$libdir" "$BATS_TEST_TMPDIR/$program"
		echo "$output"
		[ "$output" = $'gpumem: libgpumem-core: no CUDA driver that works: all memory is refused\nnone, 100, 0\n0\n100, 100' ]
	done
}
