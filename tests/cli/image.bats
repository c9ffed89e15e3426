#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat image, of files whose content is known to the byte (mkimage.c), and of files that are none.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

mkimage() {
	"$MKIMAGE" "$@"
}

@test "image of a container" {
	mkimage a.fatbin fatbin cubin:75:raw:malloc,free ptx:90a:raw:free lto:90 object:100f
	"$TOOL" image a.fatbin >out
	diff -u - out <<-'END'
	file          a.fatbin
	malloc        yes: calls an allocator: malloc, free
	code for      sm_75, compute_90a, compute_90, sm_100f

	container  code    for          packed  stored   size  malloc   calls
	        1  cubin   sm_75        none     776 B  776 B  yes      malloc, free
	        1  PTX     compute_90a  none     184 B  184 B  no       free
	        1  LTO     compute_90   none       8 B    8 B  unknown  has
	                                                                intermediate
	                                                                code (LTO),
	                                                                which cannot be
	                                                                read
	        1  object  sm_100f      none     712 B  712 B  no       -
	END
	"$TOOL" image --json a.fatbin >out
	jq -e '.schema == 1 and (.files | length) == 1' out
	jq -e '.files[0] | .file == "a.fatbin" and .malloc == "yes" and .calls == "malloc, free"' out
	jq -e '.files[0].architectures == "sm_75, compute_90a, compute_90, sm_100f"' out
	jq -e '[.files[0].parts[].malloc] == ["yes", "no", "unknown", "no"]' out
	jq -e '[.files[0].parts[].kind] == ["cubin", "PTX", "LTO", "object"]' out
	jq -e '.files[0].parts[2].why == "has intermediate code (LTO), which cannot be read"' out
	jq -e '.files[0].parts[0] | .container == 1 and .size == 776 and .compression == "none" and .debug == false' out
	"$TOOL" image -n 1 --units=K a.fatbin | grep -qx '... and 3 more'
}

@test "image of bare code, programs, several files" {
	mkimage a.cubin cubin:120:raw:__cuda_syscall_aligned_malloc
	mkimage b.ptx ptx:80:raw:vprintf
	mkimage c.so host fatbin cubin:90 fatbin cubin:80 ptx:80
	mkimage d.cubin old:75
	"$TOOL" image a.cubin b.ptx c.so d.cubin >out
	diff -u - out <<-'END'
	file          a.cubin
	malloc        yes: calls an allocator: __cuda_syscall_aligned_malloc
	code for      sm_120

	container  code   for     packed  stored   size  malloc  calls
	        -  cubin  sm_120  none     768 B  768 B  yes     __cuda_syscall_aligned_
	                                                         malloc

	file          b.ptx
	malloc        no: calls no allocator
	code for      compute_80

	container  code  for         packed  stored   size  malloc  calls
	        -  PTX   compute_80  none     186 B  186 B  no      -

	file          c.so
	malloc        no: calls no allocator
	code for      sm_90, sm_80, compute_80

	container  code   for         packed  stored   size  malloc  calls
	        1  cubin  sm_90       none     712 B  712 B  no      -
	        2  cubin  sm_80       none     712 B  712 B  no      -
	        2  PTX    compute_80  none     104 B  104 B  no      -

	file          d.cubin
	malloc        no: calls no allocator
	code for      sm_75

	container  code   for    packed  stored   size  malloc  calls
	        -  cubin  sm_75  none     712 B  712 B  no      -
	END
	"$TOOL" image --json a.cubin b.ptx c.so d.cubin >out
	jq -e '[.files[].malloc] == ["yes", "no", "no", "no"]' out
	jq -e '.files[0].parts[0].container == null and .files[2].parts[2].container == 2' out
}

@test "image of compressed code, and with a library missing" {
	"$MKIMAGE" pack || skip "liblz4 or libzstd is missing"
	mkimage a.fatbin fatbin cubin:75:lz4:malloc ptx:90:zstd:malloc
	"$TOOL" image --json a.fatbin >out
	jq -e '[.files[0].parts[] | .compression + " " + .malloc] == ["LZ4 yes", "zstd yes"]' out
	jq -e '.files[0].parts[0] | .size == 744 and .stored < 600' out
	mkdir missing
	echo none >missing/liblz4.so.1
	LD_LIBRARY_PATH=$PWD/missing "$TOOL" image --json a.fatbin >out
	jq -e '[.files[0].parts[].malloc] == ["unknown", "yes"]' out
	jq -e '.files[0].parts[0].why == "is compressed, and there is no liblz4.so.1"' out
	mv missing/liblz4.so.1 missing/libzstd.so.1
	LD_LIBRARY_PATH=$PWD/missing "$TOOL" image --json a.fatbin >out
	jq -e '[.files[0].parts[].malloc] == ["yes", "unknown"]' out
	jq -e '.files[0].parts[1].why == "is compressed, and there is no libzstd.so.1"' out
}

@test "image refuses files without device code" {
	mkdir folder
	mkfifo pipe
	ln -s loop loop
	: >empty
	echo 'no code' >text
	mkimage host host fatbin
	fails 1 'gpumemstat: none: no such file' image none
	fails 1 'gpumemstat: folder: Is a directory' image folder
	fails 1 'gpumemstat: pipe: not a regular file' image pipe
	fails 1 'gpumemstat: /dev/zero: not a regular file' image /dev/zero
	fails 1 'gpumemstat: loop: Too many levels of symbolic links' image loop
	fails 1 'gpumemstat: empty: empty' image empty
	fails 1 'gpumemstat: text: is of no format that is known here' image text
	fails 1 'gpumemstat: host: has no code in it' image --json host
	fails 1 "gpumemstat: $MKIMAGE: has no code in it" image "$MKIMAGE"
	fails 1 "gpumemstat: '': no such file" image ''
	fails 1 'gpumemstat: a\x1b[1m\n\xff: no such file' image $'a\e[1m\n\xff'
}

@test "image of a file that is cut while it is read" {
	mkimage a.fatbin fatbin cubin:75
	LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$CUT" CUT=a.fatbin expect 1 'gpumemstat: a.fatbin: was cut while it was read' image a.fatbin
	[ ! -s a.fatbin ]
}

@test "image of damaged files, and good ones beside them" {
	mkimage good fatbin cubin:75 ptx:75
	head -c 800 good >short
	head -c 100 good >shorter
	printf '\xb1\x43\x62\x46\1\0\0\0AAAAAAAABBBBBBBB' >wrapper
	fails 1 'gpumemstat: short: is damaged
gpumemstat: shorter: is damaged
gpumemstat: wrapper: is of no format that is known here' image short shorter wrapper
	status=0
	"$TOOL" image --json short good none >out 2>err || status=$?
	[ "$status" -eq 1 ]
	diff -u - err <<<'gpumemstat: short: is damaged
gpumemstat: none: no such file'
	jq -e '[.files[].file] == ["good"]' out
	# What can still be read is shown.
	mkimage two fatbin cubin:75 fatbin cubin:80:raw:free
	head -c 1200 two >cut
	status=0
	"$TOOL" image --json cut >out 2>err || status=$?
	[ "$status" -eq 1 ]
	[ ! -s err ]
	jq -e '.files[0] | .malloc == "unknown" and .why == "is damaged" and (.parts | length) == 1' out
}
