#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Memory that libgpumem-core keeps for streams is cut, merged and bounded. By itself and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	PROGRAMS=$PWD/tests/core
	export GPUMEM_VERBOSE=0
	needs_driver 12.0
}

# both CASE LINE...: its output, natively and preloaded.
both() {
	same cuts "$1"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/native"
}

@test "a kept block is cut for its stream, freed parts are merged, and a part is freed once" {
	both cut 'another stream gets a part before the first is through: no' 'cut for a request of a thirtieth: no' \
		'part 0 of the block: yes' 'part 1 of the block: yes' 'part 2 of the block: yes' 'part 3 of the block: yes' \
		'3 blocks, 0 bytes kept' '33554432 bytes kept' 'two neighbours are one part: yes' 'and all the block again: yes' \
		'0 bytes are left'
}

@test "neighbours that two streams have freed are merged only after both have completed" {
	both cut_apart 'both are one for the first stream: no' 'its own part: at once: yes' '0 bytes are left'
}

@test "a block stays while a part of it is in use" {
	both cut_kept 'a part in use is there after trimming: yes' '0 blocks, 0 bytes are left'
}

@test "kept memory is bounded by memory in use, and no free waits for that" {
	export SIM_MEMORY=8G
	both bound 'a free waits: no' 'all is kept while the stream is busy: yes' '128 MiB are kept at most then: yes' \
		'an eighth of what is in use: yes'
}

@test "random sizes and streams: no memory is handed out twice, and all is returned" {
	export SIM_MEMORY=8G
	both soak '0 blocks overlap; 0 bytes are left'
}
