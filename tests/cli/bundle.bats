#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The relocatable folder of `make bundle`, and README's two ways to use it.
source "$BATS_TEST_DIRNAME/cli.bash"

BUILD=$PWD TOP=$BATS_TEST_DIRNAME/../..
NAME=gpumem-$(cat "$TOP/VERSION")-$(uname -m)

OTHER=${SANITIZE_LIB:-}${COVERAGE:-}${TEST_UNDER:-}

setup() {
	[ -z "$OTHER" ] || skip "it is not made for this"
	export LD_LIBRARY_PATH=$SIM
	cd "$BATS_TEST_TMPDIR"
}

setup_file() {
	[ -z "$OTHER" ] || return 0
	make -s bundle GPU_ARCHS_INSTALL= # only the architectures that are already built
	cp "$NAME.tar.gz" "$BATS_FILE_TMPDIR"
}

unpack() {
	mkdir -p "$1"
	tar -xzf "$BATS_FILE_TMPDIR/$NAME.tar.gz" -C "$1"
}

# Copy the simulated driver and the demo out of the build folder.
program() {
	mkdir -p "$1"
	cp -L "$SIM"/lib*.so* "$1"
	cp "$DEMO" "$1"
}

# block WORD: print README's indented lines from the one that begins with WORD.
block() {
	awk -v word="$1" '/^    / && substr($0, 5, length(word)) == word {on = 1} on && !/^    / {exit} on {print substr($0, 5)}' \
		"$TOP/README.md"
}

# apart COMMAND: run it in a mount namespace without the build folder.
apart() {
	local how
	for how in "unshare -m" "unshare -rm" none; do
		if $how true 2>/dev/null; then break; fi
	done
	[ "$how" != none ] || skip "no mount namespace to be had here"
	[[ $BATS_TEST_TMPDIR != "$BUILD"/* ]] || skip "this test's own folder lies in the build folder"
	BUILD=$BUILD $how sh -ec 'mount -t tmpfs none "$BUILD"; [ ! -e "$BUILD/gpumemstat" ]; eval "$1"' sh "$1"
}

# newest FILE: print the newest version of glibc that FILE needs.
newest() {
	nm -D --undefined-only --with-symbol-versions "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1
}

@test "the tool and the libraries need no glibc above 2.28" {
	unpack .
	for file in bin/gpumemstat lib/libgpumem.so lib/libgpumem-core.so; do
		version=$(newest "$NAME/$file")
		[ -n "$version" ]
		[ "$(printf '%s\n' "$version" GLIBC_2.28 | sort -V | tail -n 1)" = GLIBC_2.28 ] || { echo "$file: $version"; return 1; }
		nm -D --undefined-only --with-symbol-versions "$NAME/$file" | refute grep -E '__isoc23_|GLIBC_PRIVATE|GLIBC_ABI_DT_RELR'
	done
	readelf -VW "$NAME/bin/gpumemstat" | refute grep GLIBC_ABI
	# The libraries that had these functions until 2.33.
	readelf -dW "$NAME/bin/gpumemstat" | grep NEEDED | tr -d ']' | sed 's/.*\[//' | sort | diff - <(printf '%s\n' libc.so.6 libdl.so.2 libm.so.6 libpthread.so.0)
	readelf -dW "$NAME/lib/libgpumem-core.so" | grep NEEDED | tr -d ']' | sed 's/.*\[//' | sort | diff - <(printf '%s\n' libc.so.6 libdl.so.2 libpthread.so.0)
	readelf -dW "$NAME/bin/gpumemstat" | refute grep -E 'RPATH|RUNPATH'
}

@test "constructors run, although the start-up code is an old glibc's" {
	unpack .
	# A message of the pool is printed only if a constructor found standard error open.
	mklog a.gml at:1s map:0:64M:1us alloc:0:1M:1us
	GPUMEM_TRIM_AFTER=never-ever "$NAME/bin/gpumemstat" replay a.gml 2>err >out || true
	grep -q '^gpumem: .*GPUMEM_TRIM_AFTER' err
}

@test "the bundle has README's files, and no path of the build folder" {
	unpack .
	for file in bin/gpumemstat lib/libgpumem.so lib/libgpumem-core.so.0 lib/pkgconfig/gpumem.pc include/gpumem.h \
		share/man/man1/gpumemstat.1 share/man/man7/gpumem{,-knobs,-programs,-sleep}.7 share/doc/gpumem/README.md share/doc/gpumem/NEWS \
		share/doc/gpumem/LICENSE share/bash-completion/completions/gpumemstat share/zsh/site-functions/_gpumemstat \
		share/fish/vendor_completions.d/gpumemstat.fish; do
		[ -s "$NAME/$file" ] || { echo "no $file"; return 1; }
	done
	[ -z "$(find "$NAME" -name '*.la' -o -name '*.a')" ]
	refute grep -rqF "$BUILD" "$NAME"
	# The prefix may lie within the source folder, as distcheck's does.
	for folder in api shim src tests tools; do
		refute grep -rqF "$(cd "$TOP" && pwd)/$folder" "$NAME"
	done
	[ "$(ls)" = "$NAME" ]
}

@test "two bundles of the same files are identical" {
	(umask 077 && cd "$BUILD" && make -s bundle GPU_ARCHS_INSTALL=)
	cmp "$BUILD/$NAME.tar.gz" "$BATS_FILE_TMPDIR/$NAME.tar.gz"
	# Also before a release, whose date NEWS does not know.
	tar -tvzf "$BUILD/$NAME.tar.gz" --utc | refute grep -vE ' (19[89]|20[0-9])[0-9]-[0-9]{2}-[0-9]{2} '
	(cd "$BUILD" && SOURCE_DATE_EPOCH=0 make -s bundle GPU_ARCHS_INSTALL=)
	[ "$(tar -tvzf "$BUILD/$NAME.tar.gz" --utc | grep -c '1970-01-01 00:00')" -eq "$(tar -tzf "$BUILD/$NAME.tar.gz" | wc -l)" ]
}

@test "tool and preload find each other: unpacked, moved, by a link, in lib64, in one folder; without the build folder" {
	program app
	unpack first
	run_it() {
		rm -f log
		apart "LD_LIBRARY_PATH=app GPUMEM_LIBRARY_PATH= $1 record -o log app/demo 20 >out 2>err" || { cat err; return 1; }
		grep -q '^gpumemstat: log: peak ' err
		"$TOOL" --json log | jq -e '.logs[0] | .closed and .contradiction == null and .devices[0].counters.allocate_pool > 0'
	}
	run_it "first/$NAME/bin/gpumemstat"
	mkdir second
	mv "first/$NAME" second/moved
	run_it second/moved/bin/gpumemstat
	ln -s "$PWD/second/moved/bin/gpumemstat" link
	run_it ./link
	mv second/moved/lib second/moved/lib64
	run_it second/moved/bin/gpumemstat
	mkdir one
	mv second/moved/bin/gpumemstat second/moved/lib64/libgpumem.so one
	run_it one/gpumemstat
	# Without the library the message names the searched places.
	rm one/libgpumem.so
	apart 'LD_LIBRARY_PATH=app one/gpumemstat record app/demo 20 2>err || [ $? -eq 125 ]'
	grep -q '^gpumemstat: libgpumem.so is neither beside this program, nor in ../lib, nor in /' err
}

@test "pkg-config finds the library of the bundle in any folder" {
	command -v pkg-config || skip "no pkg-config"
	unpack here
	[ "$(PKG_CONFIG_PATH=here/$NAME/lib/pkgconfig pkg-config --variable=includedir gpumem)" -ef "here/$NAME/include" ]
	[ "$(PKG_CONFIG_PATH=here/$NAME/lib/pkgconfig pkg-config --variable=libdir gpumem)" -ef "here/$NAME/lib" ]
}

@test "README's image: its lines work on a root folder with this machine's programs" {
	block FROM >Dockerfile
	[ "$(cut -d' ' -f1 Dockerfile | tr '\n' ' ')" = 'FROM ADD ENV ' ]
	read -r _ archive to < <(grep ^ADD Dockerfile)
	[ "$archive" = "$NAME.tar.gz" ]
	unpack "root$to"
	program root/app
	setting=$(sed -n 's/^ENV //p' Dockerfile)
	for folder in bin lib lib64 usr etc; do
		if [ -h /$folder ]; then cp -a /$folder root; elif [ -d /$folder ]; then mkdir root/$folder; fi
	done
	mkdir root/proc root/tmp
	apart 'for f in bin lib lib64 usr etc proc; do [ -h root/$f ] || [ ! -d root/$f ] || mount --rbind /$f root/$f; done
		chroot root /usr/bin/env '"$setting"' LD_LIBRARY_PATH=/app GPUMEM_LOG_NAME=/tmp/log /app/demo 20 >out 2>err' || { cat err; return 1; }
	[ ! -s err ]
	"$TOOL" --json root/tmp/log | jq -e '.logs[0] | .closed and .devices[0].counters.allocate_pool > 0'
}

@test "README's Slurm prolog: its output for jobs that ask for gpumem, and for others" {
	block '#!/bin/sh' >prolog
	[ "$(wc -l <prolog)" -eq 3 ]
	bash -n prolog
	sh -n prolog
	[ -z "$(env -u GPUMEM -u LD_PRELOAD SLURM_JOB_ID=7 sh prolog)" ]
	env -u GPUMEM sh prolog
	[ "$(GPUMEM=1 LD_PRELOAD= sh prolog)" = "export LD_PRELOAD=/opt/$NAME/lib/libgpumem.so" ]
	# Slurm sets the variables of the standard output's `export` lines. The bundle has another folder
	# here.
	unpack opt
	GPUMEM=1 SLURM_JOB_ID=7 SLURM_PROCID=3 LD_PRELOAD= sh prolog | sed "s|=/opt/|=$PWD/opt/|" >exports
	(. ./exports && SLURM_JOB_ID=7 SLURM_PROCID=3 SLURM_NTASKS=4 "$DEMO" 20 >/dev/null)
	"$TOOL" --json *.gml | jq -e '.logs[0] | .rank == 3 and .closed and .devices[0].counters.allocate_pool > 0'
}
