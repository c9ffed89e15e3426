#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# malloc in kernels: takeover of contexts. The simulated driver refuses the module that begins a takeover
# (CUDA_ERROR_INVALID_IMAGE, 200): each attempt is one such line in its trace, and the program goes on
# natively.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	grep -q '^#define GM_HELPERS 1' config.h || skip 'this build has no code for GPUs'
}

# attempts PART [PROGRAM [ARGUMENT]]: runs it, and prints the number of takeovers that began.
attempts() {
	rm -f "$BATS_TEST_TMPDIR/trace"
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/${2:-inkernel}" "$1" "${@:3}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	grep -cx 'cuModuleLoadData 200' "$BATS_TEST_TMPDIR/trace" || true
}

@test "a refused takeover changes no answer, and prints nothing" {
	for part in modules libraries resets captured limits; do
		same inkernel "$part"
	done
	[ "$(attempts modules)" -eq 1 ]
	[ ! -s "$BATS_TEST_TMPDIR/err" ]
}

@test "a context is taken over once, before the load of its first module that may call malloc" {
	[ "$(attempts modules)" -eq 1 ]
	[ "$(grep -nx 'cuModuleLoadData 200' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" -lt \
		"$(grep -nxm1 'cuModuleLoadData 0' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" ]
}

@test "a context is taken over when a library's first kernel is used in it" {
	[ "$(attempts libraries)" -eq 2 ]
}

@test "a context is taken over again after each reset" {
	[ "$(attempts resets)" -eq 3 ]
}

@test "a thread does not wait endlessly for another thread that takes its context over" {
	same inkernel patience
	[ "$(attempts patience)" -eq 1 ]
	grep -qx 'it went on' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -nx 'cuModuleLoadData 200' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" -gt \
		"$(grep -nxm1 'cuLaunchKernel 0' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" ]
}

@test "a takeover is put off while a capture is open" {
	[ "$(attempts captured)" -eq 1 ]
	[ "$(grep -nx 'cuModuleLoadData 200' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" -gt \
		"$(grep -nx 'cuStreamEndCapture 0' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)" ]
}

@test "the image of a library is read at its first kernel, if it stays in memory" {
	for part in preserved module listed in_program wrapped threads; do
		same unread "$part"
		[ "$(attempts "$part" unread)" -eq 1 ]
	done
	same unread once
	[ "$(attempts once unread)" -eq 0 ]
}

@test "the image of a library is read at its load, if it may be unmapped" {
	same unread copied
	[ "$(attempts copied unread)" -eq 1 ]
	for part in copied_harmless in_variable again; do
		same unread "$part"
		[ "$(attempts "$part" unread)" -eq 0 ]
	done
}

@test "no context is taken over with GPUMEM_HEAP=off or in mode trace" {
	KNOBS=(GPUMEM_HEAP=off)
	[ "$(attempts libraries)" -eq 0 ]
	KNOBS=(GPUMEM_MODE=trace)
	[ "$(attempts modules)" -eq 0 ]
}

@test "no context is taken over when a debugger is attached" {
	same inkernel debugged cudbgApiClientPid
	KNOBS=(GPUMEM_VERBOSE=3)
	for word in cudbgIpcFlag cudbgDebuggerInitialized cudbgRpcEnabled cudbgApiClientPid cudbgUseExternalDebugger; do
		[ "$(attempts debugged inkernel "$word")" -eq 0 ]
		grep -q 'stays the driver.s: a debugger or compute-sanitizer is at work' "$BATS_TEST_TMPDIR/err"
	done
}

@test "no context is taken over under a tool that watches the code of kernels" {
	for name in libsanitizer-collection.so libsanitizer-public.so libcudadebugger.so.1; do
		cp "$SIM/libcudart.so.13" "$BATS_TEST_TMPDIR/$name"
		[ "$(attempts watched inkernel "$BATS_TEST_TMPDIR/$name")" -eq 0 ]
	done
	cp "$SIM/libcudart.so.13" "$BATS_TEST_TMPDIR/libanother.so"
	[ "$(attempts watched inkernel "$BATS_TEST_TMPDIR/libanother.so")" -eq 1 ]
}

@test "GPUMEM_VERBOSE=3 reports once the reason for a context that is not taken over" {
	KNOBS=(GPUMEM_VERBOSE=3)
	[ "$(attempts resets)" -eq 3 ]
	[ "$(grep -c 'malloc in kernels stays the driver' "$BATS_TEST_TMPDIR/err")" -eq 1 ]
}
