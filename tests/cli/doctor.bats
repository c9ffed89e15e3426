#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat doctor: every check, passing and failing.
source "$BATS_TEST_DIRNAME/cli.bash"
DENY=$PWD/tests/cli/deny
CONFIG=$PWD/config.h
unset LD_PRELOAD "${!GPUMEM_@}"

# checked STATUS ARGUMENT...: run doctor into the file out (JSON); its exit status must be STATUS.
checked() {
	local status=0
	"$TOOL" doctor --json --timeout=1h "${@:2}" >out 2>err || status=$?
	[ "$status" -eq "$1" ] || { echo "exit $status, not $1: doctor ${*:2}"; cat out err; return 1; }
	jq -e --argjson works $((1 - status)) '.schema == 1 and .works == ($works == 1)' out >/dev/null
}

# finds STATE CHECK TEXT [REMEDY]: the last run has such a check; TEXT and REMEDY are parts of its texts
finds() {
	jq -e --arg state "$1" --arg check "$2" --arg text "$3" --arg remedy "${4-}" \
		'.checks | map(select(.state == $state and .check == $check) | (.text | contains($text)) and (.remedy | contains($remedy))) | any' \
		out >/dev/null || { echo "no $1 $2: $3"; cat out; return 1; }
}

# fake SOURCE: a folder driver/ with a libcuda.so.1 of these functions, and of the simulated driver's others
fake() {
	mkdir -p driver
	python3 - "$SIM/libcuda.so.1" driver/libsimu.so.1 <<-'END'
		import sys
		data = open(sys.argv[1], "rb").read()
		open(sys.argv[2], "wb").write(data.replace(b"libcuda.so.1\0", b"libsimu.so.1\0"))
	END
	printf '%s\n' "$1" >fake.c
	cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o driver/libcuda.so.1 fake.c -Wl,--no-as-needed -Wl,-rpath,"$PWD/driver" \
		driver/libsimu.so.1 -ldl
	export LD_LIBRARY_PATH=$PWD/driver
}

@test "doctor: all is well" {
	checked 0
	jq -e '[.checks[] | .check] == ["system", "proc", "memfd", "limits", "library", "preload", "knobs", "log",
		"heap", "driver", "lending", "device 0", "mapping 0", "sharing 0"]' out
	jq -e '[.checks[] | select(.check != "heap") | .state] | unique == ["ok"]' out
	finds ok driver "$(realpath "$SIM/libcuda.so.1"), CUDA "
	finds ok 'device 0' 'Simulated GPU, '
	finds ok 'mapping 0' '2 MiB were created, mapped and released; granularity 2.00 MiB'
	finds ok 'sharing 0' 'POSIX file descriptors, with GPUDirect RDMA'
	finds ok library "$(dirname "$TOOL")/"
	[ -z "$(ls | grep -v -e out -e err)" ] # neither the trial nor the driver leaves a log
	SIM_DEVICES=3 checked 0
	jq -e '[.checks[] | select(.check | startswith("mapping"))] | length == 3' out
}

@test "doctor: device heaps are built in or not, and enabled or not" {
	if grep -q 'define GM_HELPERS' "$CONFIG"; then
		checked 0
		finds ok heap 'the device code of heaps is built in'
		GPUMEM_HEAP=off checked 0
		finds ok heap 'GPUMEM_HEAP=off: none is made'
	else
		checked 0
		finds warn heap "this build has no device code: malloc in kernels stays the driver's" 'nvcc'
	fi
}

@test "doctor: the text has a line for each check, with the result and the remedy" {
	"$TOOL" doctor --width=200 >out
	head -n 1 out | grep -qE '^state +check +what$'
	grep -qE '^ok +mapping 0 +2 MiB were created, mapped and released; granularity 2.00 MiB\.$' out
	[ "$(tail -n 1 out)" = 'result        It works here.' ]
	status=0
	SIM_DEVICES=0 "$TOOL" doctor --width=200 >out || status=$?
	[ "$status" -eq 1 ]
	grep -qE '^fail +driver +.*: cuInit answers CUDA_ERROR_NO_DEVICE \(100\)\. Is there a GPU \(nvidia-smi\)\?' out
	[ "$(tail -n 1 out)" = 'result        It cannot work here: 1 check failed.' ]
	GPUMEM_MODE=x "$TOOL" doctor | tail -n 1 | grep -qx 'result        It works here, with 1 restriction.'
}

@test "doctor: no driver, a driver that fails, an old driver" {
	LD_LIBRARY_PATH=/nowhere checked 1
	if [ -z "$(ldconfig -p 2>/dev/null | grep libcuda.so.1)" ]; then
		finds fail driver 'libcuda.so.1 cannot be loaded: ' "Install NVIDIA's driver"
	fi
	mkdir none
	echo text >none/libcuda.so.1
	LD_LIBRARY_PATH=$PWD/none checked 1
	finds fail driver 'libcuda.so.1 cannot be loaded: '
	SIM_FAIL=cuInit:1:999 checked 1
	finds fail driver 'cuInit answers CUDA_ERROR_UNKNOWN' dmesg
	SIM_FAIL=cuInit:1:34 checked 1
	finds fail driver 'cuInit answers an unknown CUDA error (34)' 'take its folder out of LD_LIBRARY_PATH'
	SIM_FAIL=cuInit:1:803 checked 1
	finds fail driver 'cuInit answers an unknown CUDA error (803)' 'Kernel module and libcuda differ'
	SIM_DRIVER=11.3 checked 1
	finds fail driver 'CUDA 11.3' 'gpumem needs a driver from CUDA 11.4'
	SIM_DRIVER=11.4 checked 0
	finds warn driver 'CUDA 11.4' 'Before 12.5'
	SIM_DRIVER=12.5 checked 0
	finds ok driver 'CUDA 12.5'
}

@test "doctor: whether PyTorch's cache can be lent" {
	checked 0
	finds ok lending 'GPUMEM_LEND=0; it can lend parts of PyTorch'"'"'s cache here'
	PYTORCH_ALLOC_CONF=expandable_segments:True checked 0
	finds ok lending 'GPUMEM_LEND=0, and it would have no effect: PYTORCH_ALLOC_CONF has expandable_segments:True, so that the cache maps its memory itself'
	export GPUMEM_LEND=1
	checked 0
	finds ok lending 'GPUMEM_LEND can lend parts of PyTorch'"'"'s cache'
	PYTORCH_NO_CUDA_MEMORY_CACHING=0 checked 0
	finds ok lending 'GPUMEM_LEND can lend parts of PyTorch'"'"'s cache'
	SIM_DRIVER=12.4 checked 0
	finds warn lending 'GPUMEM_LEND has no effect: the driver is older than 12.5' 'Install a driver from CUDA 12.5 on (555).'
	SIM_DRIVER=12.5 checked 0
	finds ok lending 'GPUMEM_LEND can lend'
	for conf in PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF; do
		env "$conf=max_split_size_mb:64,expandable_segments:True" "$TOOL" doctor --json >out
		finds warn lending 'GPUMEM_LEND has no effect: PYTORCH_ALLOC_CONF has expandable_segments:True, so that the cache maps its memory itself' 'Use one of the two.'
		env "$conf=backend:cudaMallocAsync" "$TOOL" doctor --json >out
		finds warn lending 'GPUMEM_LEND has no effect: PYTORCH_ALLOC_CONF has backend:cudaMallocAsync, which has no segments' 'Use one of the two.'
	done
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 checked 0
	finds warn lending 'GPUMEM_LEND has no effect: PYTORCH_NO_CUDA_MEMORY_CACHING is set: there is no cache' 'Unset it.'
	TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1 checked 0
	finds warn lending 'GPUMEM_LEND has no effect: TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK is set: NCCL registers whole segments' 'Unset it.'
	GPUMEM_REMAP=off checked 0
	finds warn lending 'GPUMEM_LEND has no effect: GPUMEM_REMAP=off' 'Unset GPUMEM_REMAP.'
	GPUMEM_IPC=native checked 0
	finds warn lending 'GPUMEM_LEND has no effect: GPUMEM_IPC=native leaves segments to the driver' 'Unset GPUMEM_IPC.'
	GPUMEM_MODE=trace checked 0
	finds warn lending 'GPUMEM_LEND has no effect: GPUMEM_MODE=trace only watches' 'Unset GPUMEM_MODE.'
}

@test "doctor: a driver that lacks a needed call" {
	mkdir less
	printf '%s\n' 'int cuInit(unsigned f) { return f; }' >less.c
	cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o less/libcuda.so.1 less.c
	LD_LIBRARY_PATH=$PWD/less checked 1
	finds fail driver "$PWD/less/libcuda.so.1 has no cuCtxGetDevice" 'gpumem needs a driver from CUDA 11.4'
}

@test "doctor: a driver that crashes, ends the process, or never answers" {
	fake 'int cuInit(unsigned f) { __builtin_trap(); return f; }'
	checked 1
	finds fail driver 'the driver crashed in cuInit (Illegal instruction)' 'Install the driver anew'
	fake '#include <stdlib.h>
	int cuDeviceGetCount(int *n) { *n = 1; exit(3); }'
	checked 1
	finds ok driver 'driver/libcuda.so.1, CUDA '
	finds fail driver 'the driver ended the process in cuDeviceGetCount'
	fake '#include <unistd.h>
	int cuInit(unsigned f) { for (;;) pause(); }'
	for time in 200ms 2s 20s 200s; do # as long as a busy machine needs to reach cuInit
		checked 1 --timeout=$time
		if grep -q 'from cuInit' out; then break; fi
	done
	finds fail driver ' from cuInit' '--timeout waits longer'
	grep -qE 'no answer in [0-9.]+ m?s from cuInit' out
	fake '#include <stdio.h>
	int cuInit(unsigned f) { puts("a driver that talks"); fflush(stdout); return 0; }'
	checked 1 # the simulated driver was never initialised
	! grep -q talks out
}

@test "doctor: no device, a device without mapping, a full one, one without sharing" {
	fake 'int cuDeviceGetCount(int *n) { return *n = 0; }'
	checked 1
	finds fail devices 'the driver has no device' 'Is CUDA_VISIBLE_DEVICES empty?'
	attribute() {
		fake '#define _GNU_SOURCE
		#include <dlfcn.h>
		int cuDeviceGetAttribute(int *v, int which, int d) {
			int (*next)(int *, int, int) = (int (*)(int *, int, int))dlsym(RTLD_NEXT, "cuDeviceGetAttribute");
			return which == '$1' ? *v = 0 : next(v, which, d); }'
	}
	attribute 102
	checked 1
	finds ok 'device 0' 'Simulated GPU'
	finds fail 'mapping 0' 'no virtual memory management: the driver serves this device'
	attribute 103
	checked 0
	finds warn 'sharing 0' 'no POSIX file descriptors, with GPUDirect RDMA' 'cannot be shared'
	attribute 110
	checked 0
	finds warn 'sharing 0' 'POSIX file descriptors, no GPUDirect RDMA' 'cannot be shared'
	fake 'int cuMemGetAllocationGranularity(unsigned long *g, void *p, int o) { *g = 32 << 20; return 0; }'
	checked 1
	finds fail 'mapping 0' 'maps in steps of 32.0 MiB, not of 2 MiB'
	export LD_LIBRARY_PATH=$SIM
	SIM_FAIL=cuMemCreate:1 checked 0
	finds warn 'mapping 0' 'a trial of 2 MiB: cuMemCreate answers CUDA_ERROR_OUT_OF_MEMORY' 'The device is full'
	for call in cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressFree; do
		SIM_FAIL=$call:1:999 checked 1
		finds fail 'mapping 0' "a trial of 2 MiB: $call answers CUDA_ERROR_UNKNOWN"
	done
	SIM_FAIL=cuMemCreate:2:800 checked 0
	finds warn 'sharing 0' 'the device allows sharing, but cuMemCreate answers CUDA_ERROR_NOT_PERMITTED' 'plain handles'
	SIM_FAIL=cuDeviceGetName:1:999 checked 1
	finds fail 'device 0' 'cannot be asked: CUDA_ERROR_UNKNOWN'
}

@test "doctor: a library that is missing, invalid, built for another system, or has a blank in its name" {
	GPUMEM_LIBRARY_PATH=/nowhere/libgpumem.so checked 1
	finds fail library 'libgpumem.so was not found' 'GPUMEM_LIBRARY_PATH'
	# A library that needs a missing symbol, as one built for a newer C library.
	printf '%s\n' 'extern int no_such_function(void); int cuInit(unsigned f) { return no_such_function() + (int)f; }
	__attribute__((constructor)) static void begin(void) { cuInit(0); }' >newer.c
	cc -shared -fPIC -Wl,-z,now -o libgpumem.so newer.c
	GPUMEM_LIBRARY_PATH=$PWD/libgpumem.so checked 1
	finds fail library "$PWD/libgpumem.so cannot be loaded: " 'that was made for this system'
	finds fail library no_such_function
	mkdir 'a folder'
	cp "$(realpath "$(dirname "$TOOL")"/.libs/libgpumem.so)" 'a folder/libgpumem.so'
	GPUMEM_LIBRARY_PATH="$PWD/a folder/libgpumem.so" checked 1
	finds fail library 'cannot name a file with a blank or a colon' 'Move it'
}

@test "doctor: LD_PRELOAD is judged" {
	finds_preload() { LD_PRELOAD=$1 checked 0 2>/dev/null && finds "$2" preload "$3"; }
	finds_preload "$(realpath "$(dirname "$TOOL")"/.libs/libgpumem.so)" ok 'LD_PRELOAD has libgpumem.so'
	[ -z "$(ls | grep gml)" ] # doctor leaves no log even if it is preloaded itself
	finds_preload /nowhere/else.so warn 'LD_PRELOAD names /nowhere/else.so, which cannot be read'
	cc -shared -fPIC -x c -o other.so - <<<'int other;'
	finds_preload "$PWD/other.so" ok 'LD_PRELOAD has other libraries'
	checked 0
	finds ok preload 'LD_PRELOAD is not set; gpumemstat run sets it'
}

@test "doctor: knobs are judged" {
	GPUMEM_LIMIT=1G GPUMEM_LOG=off checked 0
	finds ok knobs '2 set, none of them wrong'
	GPUMEM_LIMIT=much checked 0
	finds warn knobs 'GPUMEM_LIMIT=much: expected' 'The default is used'
	GPUMEM_LIMITS=1G checked 0
	finds warn knobs 'GPUMEM_LIMITS is not a knob; did you mean GPUMEM_LIMIT?'
	GPUMEM_KEEP=1G checked 0
	finds warn knobs 'GPUMEM_KEEP is not a knob any more; GPUMEM_TRIM_AFTER=TIME,SIZE replaces it'
	GPUMEM_UTTER_NONSENSE=1 checked 0
	finds warn knobs 'GPUMEM_UTTER_NONSENSE is not a knob; see gpumem-knobs(7)'
	GPUMEM_ENABLE=0 checked 1
	finds fail knobs 'GPUMEM_ENABLE=0: nothing is hooked' 'Unset GPUMEM_ENABLE'
}

@test "doctor: a log that is off, in another folder, in a missing one, forbidden, or too large" {
	GPUMEM_LOG=off checked 0
	finds ok log 'GPUMEM_LOG=off: none is written'
	mkdir logs
	GPUMEM_LOG_NAME=logs/%e.%%.gml checked 0
	finds ok log 'logs/gpumemstat.%.gml can be made'
	[ -z "$(ls logs)" ]
	GPUMEM_LOG_NAME=none/x.gml checked 0
	finds warn log 'none/x.gml: a log of 1.00 MiB cannot be made: No such file or directory' 'Name another place'
	GPUMEM_LOG_NAME=$(printf 'x%.0s' {1..300}) checked 0
	finds warn log 'cannot be made: File name too long'
	GPUMEM_LOG_NAME=/proc/x.gml checked 0
	finds warn log '/proc/x.gml: a log of 1.00 MiB cannot be made: '
	GPUMEM_LOG=events checked 0
	finds ok log '.gml can be made'
	(ulimit -f 100 && checked 0 && cp out limited) || true
	cp limited out
	finds warn log 'a log of 1.00 MiB cannot be made: File too large' 'Raise the limit of file sizes (ulimit -f)'
	finds warn limits 'files are limited to 100 KiB, a log may have 1.00 MiB'
	(ulimit -f 20480 && GPUMEM_LOG=events checked 0 && cp out limited) || true # 20 MiB: one segment
	cp limited out
	finds ok log '.gml can be made'
	finds warn limits 'files are limited to 20.0 MiB, a log may have 256 MiB' 'or lower GPUMEM_LOG_LIMIT'
}

@test "doctor: a limit of address space" {
	(ulimit -v 400000000 && "$TOOL" --version >/dev/null 2>&1) || skip "this build needs more addresses than that (sanitizers)"
	(ulimit -v 400000000 && checked 0 && cp out limited) || true
	cp limited out
	finds warn limits 'addresses are limited to 381 GiB' 'ulimit -v'
}

@test "doctor: system calls that a container refuses" {
	refused() {
		local status=0
		"$DENY" "$1" "$TOOL" doctor --json >out 2>err || status=$?
		[ $status -ne 77 ] || skip "no seccomp here"
	}
	refused memfd_create
	jq -e .works out
	finds warn memfd 'Operation not permitted: without a log, live counters cannot be seen' 'seccomp profile'
	refused fallocate
	finds warn log 'no space can be reserved; its file is written, not mapped' 'A local folder'
	refused readlink
	finds warn proc '/proc/self/exe cannot be read'
}

@test "doctor: a command that can be preloaded is checked, not run" {
	checked 0 -- "$DEMO" 200 --json
	jq -e '[.checks[-3:][] | .check] == ["command", "cuda", "run path"]' out
	finds ok command "$DEMO is a program for this machine"
	finds ok cuda 'it needs libcudart.so.13'
	[ -z "$(ls | grep gml)" ] # the command was not run
	checked 0 true
	finds ok command "$(type -P true) is a program for this machine"
	finds ok cuda 'nothing of CUDA in it; libraries that it loads may use it'
	python=$(python3 -c 'import sys; print(sys.executable)') # python3 of PATH may be a shim of pyenv
	PATH=${python%/*}:$PATH
	python=$(type -P python3)
	printf '#!%s\n' "$python" >script
	chmod +x script
	checked 0 ./script
	finds ok script "./script is a script for $python"
	finds ok command "$python is a program for this machine"
	printf '#! /usr/bin/env -S A=b  python3 -u\n' >enved
	chmod +x enved
	checked 0 ./enved
	finds ok script "./enved is a script for $python"
	finds ok command "$python is a program for this machine"
}

# judged STATUS COMMAND...: the lines of doctor about the command, and the result, unwrapped; blanks as one
judged() {
	local status=0
	"$TOOL" doctor --width=400 --timeout=1h -- "${@:2}" >out 2>err || status=$?
	[ "$status" -eq "$1" ] || { echo "exit $status, not $1: ${*:2}"; cat out err; return 1; }
	sed -n '/^[a-z]*  *\(script\|rights\|command\|cuda\|run path\) /p; $p' out | tr -s ' '
}

# shell_script FILE LINE...: a script of bash, found by env
shell_script() {
	printf '%s\n' '#!/usr/bin/env bash' "${@:2}" >"$1"
	chmod +x "$1"
}

@test "doctor: a shim of pyenv or asdf is a shell script, and a command asks for the program behind it" {
	bash=$(type -P bash)
	mkdir shims
	shell_script shims/python3 'set -e' '[ -n "$PYENV_DEBUG" ] && set -x' '' 'program="${0##*/}"' '' \
		'export PYENV_ROOT="/home/ann/.pyenv"' 'exec "/home/ann/.pyenv/libexec/pyenv" exec "$program" "$@"'
	PATH=$PWD/shims:$PATH judged 0 python3 train.py >text
	diff -u - <(grep -v '^result' text) <<-END
	ok script $PWD/shims/python3 is a script for $bash.
	warn command $PWD/shims/python3 is a shell script; the program that it starts decides, and was not checked. Ask for that program: gpumemstat doctor -- "\$(pyenv which python3)"
	END
	grep -qE '^result It works here, with [12] restrictions?\.$' text
	shell_script shims/python3 '# asdf-plugin: python 3.12.1' \
		"exec /opt/asdf/bin/asdf exec \"python3\" \"\$@\" # asdf_allow: ' asdf '"
	judged 0 shims/python3 train.py | grep -q '\. Ask for that program: gpumemstat doctor -- "$(asdf which python3)"$'
	# A Python script whose interpreter is a shim.
	shell_script shims/python3 'exec "/home/ann/.pyenv/libexec/pyenv" exec "$program" "$@"'
	printf '#!/usr/bin/env python3\n' >train
	chmod +x train
	PATH=$PWD/shims:$PATH judged 0 ./train >text
	diff -u - <(grep -v '^result' text) <<-END
	ok script ./train is a script for $PWD/shims/python3.
	ok script $PWD/shims/python3 is a script for $bash.
	warn command $PWD/shims/python3 is a shell script; the program that it starts decides, and was not checked. Ask for that program: gpumemstat doctor -- "\$(pyenv which python3)"
	END
	# The printed command has no name that needs quotes.
	cp shims/python3 'shims/a;b'
	judged 0 'shims/a;b' | grep -q 'and was not checked\. Ask for that program by its path\.$'
}

@test "doctor: a shell, or a script of one, is not the program that decides" {
	for first in "$(type -P sh) -e" "$(type -P bash)" '/usr/bin/env sh' '/usr/bin/env -S A=b  sh -e' ' /usr/bin/env bash'; do
		printf '#!%s\ncd data\npython3 train.py\n' "$first" >script
		chmod +x script
		judged 0 ./script >text
		diff -u - <(grep -v '^result' text) <<-END
		ok script ./script is a script for $(type -P "$(grep -ow -e sh -e bash <<<"$first")").
		warn command ./script is a shell script; the program that it starts decides, and was not checked. Ask for that program by its path.
		END
	done
	judged 0 bash train.sh >text
	diff -u - <(grep -v '^result' text) <<-END
	warn command $(type -P bash) is a shell; the program that it starts decides, and was not checked. Ask for that program by its path.
	END
	GPUMEM_PROGRAM='python*' checked 0 ./script # the name of the shell does not count
	# The interpreter of a script must be able to load the library, a shell's, too.
	printf '%s\n' 'int main(void) { return 0; }' >p.c
	cc -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 -o sh p.c
	printf '#!%s\n' "$PWD/sh" >script
	checked 1 ./script
	finds fail command "$PWD/sh is loaded by /lib/ld-musl-x86_64.so.1, which is not glibc's"
}

@test "doctor: a shell script that hands itself to Python is a script of Python" {
	python=$(python3 -c 'import sys; print(sys.executable)')
	PATH=${python%/*}:$PATH
	python=$(type -P python3)
	mkdir 'a b'
	ln -s "$python" 'a b/python3'
	taken() { # taken LINE PROGRAM: a script with this line is one of PROGRAM
		shell_script script '# made by pip' "$1" "' '''" 'import sys'
		judged 0 ./script >text
		grep -qxF "ok script ./script is a script for $2." text && grep -qxF "ok command $2 is a program for this machine." text
	}
	taken "'''exec' $python \"\$0\" \"\$@\"" "$python"
	taken "'''exec' \"$PWD/a b/python3\" \"\$0\" \"\$@\"" "$PWD/a b/python3"
	taken "''''exec python3 -u -- \"\$0\" \"\$@\" # '''" "$python"
	shell_script script 'exec "$PYTHON" "$0" "$@"'
	judged 0 ./script | grep -q '^warn command ./script is a shell script; '
	shell_script script "'''exec' /no/python \"\$0\""
	checked 1 ./script
	finds fail command './script is a script for /no/python, which was not found' 'Install it.'
}

@test "doctor: the CUDA libraries that a program needs" {
	printf '%s\n' 'extern int cuInit(unsigned); int main(void) { return cuInit(0); }' >driver.c
	cc -o driver driver.c "$SIM/libcuda.so.1"
	checked 0 ./driver
	finds ok cuda 'it needs libcuda.so.1'
	# Device code without libcudart: the static runtime.
	printf '%s\n' '__attribute__((section(".nv_fatbin"))) const int code = 1; int main(void) { return code - 1; }' >static.c
	cc -o static static.c
	checked 0 ./static
	finds ok cuda 'it has device code and its own CUDA runtime (static)'
}

@test "doctor: run paths that lead to another driver" {
	printf '%s\n' 'int main(void) { return 0; }' >p.c
	mkdir -p lib/stubs
	cp "$SIM/libcuda.so.1" lib/stubs/
	cp "$SIM/libcuda.so.1" lib/
	cc -Wl,--enable-new-dtags -Wl,-rpath,/nowhere:'$ORIGIN/lib/stubs' -o p p.c
	checked 1 ./p
	finds fail 'run path' "its RUNPATH finds $PWD/lib/stubs/libcuda.so.1 before the system's driver, and that is a stub" 'Link it anew'
	cc -Wl,--disable-new-dtags -Wl,-rpath,"\${ORIGIN}/lib" -o p p.c
	checked 0 ./p
	finds warn 'run path' "its RPATH finds $PWD/lib/libcuda.so.1 before the system's driver"
	cc -Wl,-rpath,/nowhere -o p p.c
	checked 0 ./p
	finds ok 'run path' 'its run path has no libcuda.so.1'
}

@test "doctor: commands that cannot be preloaded" {
	checked 1 no-such-command
	finds fail command 'no-such-command is in no folder of PATH as a program'
	checked 1 ./none
	finds fail command './none: No such file or directory'
	: >plain
	checked 1 ./plain
	finds fail command './plain: Permission denied'
	chmod +x plain
	checked 1 ./plain
	finds fail command './plain is neither a program nor a script'
	printf '#!/no/such/shell\n' >script
	chmod +x script
	checked 1 ./script
	finds fail command './script is a script for /no/such/shell, which was not found' 'Install it'
	printf '#!%s\n' "$PWD/loop" >loop
	chmod +x loop
	checked 1 ./loop
	finds fail command 'loop is neither a program nor a script'
	printf '%s\n' 'int main(void) { return 0; }' >p.c
	cc -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 -o musl p.c
	checked 1 ./musl
	finds fail command "./musl is loaded by /lib/ld-musl-x86_64.so.1, which is not glibc's" 'built for glibc'
	cc -Wl,--dynamic-linker=/no/ld-linux-x86-64.so.2 -o lost p.c
	checked 1 ./lost
	finds fail command './lost is loaded by /no/ld-linux-x86-64.so.2, which is not there' 'Install that C library'
	GPUMEM_PROGRAM='python*' checked 1 "$DEMO"
	finds fail command 'GPUMEM_PROGRAM=python* leaves demo alone' 'Unset GPUMEM_PROGRAM'
	GPUMEM_PROGRAM='de*' checked 0 "$DEMO"
}

@test "doctor: programs for other machines, statically linked, damaged" {
	patched() { # patched OFFSET BYTES: a copy of true with these bytes
		cp "$(type -P true)" patched
		printf "$2" | dd of=patched bs=1 seek="$1" conv=notrunc status=none
		checked 1 ./patched
	}
	patched 4 '\x01'
	finds fail command './patched is a 32-bit program'
	patched 18 '\xf3\x00' # RISC-V
	finds fail command './patched is a program for another processor (ELF machine 243)'
	patched 54 '\x07' # size of a program header
	finds fail command './patched is neither a program nor a script'
	head -c 100 "$(type -P true)" >cut
	chmod +x cut
	checked 1 ./cut
	finds fail command './cut is neither a program nor a script'
	printf '%s\n' 'int main(void) { return 0; }' >p.c
	cc -static -o static p.c 2>/dev/null || skip "no static libc"
	checked 1 ./static
	finds fail command './static is statically linked: nothing can be preloaded into it' 'the CUDA runtime may stay static'
	cc -static-pie -o static p.c
	checked 1 ./static
	finds fail command './static is statically linked'
}

@test "doctor ends well on damaged programs" {
	cp "$(type -P true)" whole
	for seed in $(seq 1 60); do
		python3 - $seed <<-'END'
			import random, sys
			random.seed(int(sys.argv[1]))
			data = bytearray(open("whole", "rb").read())
			for i in range(random.randint(1, 40)):
			    data[random.randrange(4, random.choice((64, 1024, len(data))))] = random.choice((0, 1, 127, 128, 255))
			open("bad", "wb").write(data[:random.choice((len(data), random.randrange(4, len(data))))])
		END
		chmod +x bad
		status=0
		"$TOOL" doctor --json ./bad >out 2>err || status=$?
		[ $status -le 1 ] && jq -e '.checks | map(.check) | any(. == "command")' out >/dev/null || { echo "seed $seed"; return 1; }
	done
}

@test "doctor: a user without permissions" {
	cp "$(type -P true)" setuid
	chmod u+s setuid
	[ -u setuid ] || skip "no set-user-ID files here"
	checked 0 ./setuid # a set-user-ID program of the same user is fine
	chown 12345 setuid 2>/dev/null && chmod u+s setuid || skip "not allowed to give files away"
	checked 1 ./setuid
	finds fail rights './setuid: it is set-user-ID, so the loader ignores LD_PRELOAD' 'Run a copy'
}

@test "doctor refuses wrong options" {
	for time in 0 0s -1s 5 soon ''; do
		expect 2 "gpumemstat: --timeout=$time: expected a time like 500ms or 30s
Try 'gpumemstat doctor --help'" doctor --timeout=$time
	done
}
