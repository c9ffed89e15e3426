#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat image, of files with known contents (mkimage.c), and of files without device code.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

MUTATE=$PWD/tests/cli/mutate
BUILD=$PWD

mkimage() {
	"$MKIMAGE" "$@"
}

@test "image of a container of device code" {
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

	parts  kernel
	    3  kernel
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

	parts  kernel
	    1  kernel

	file          b.ptx
	malloc        no: calls no allocator
	code for      compute_80

	container  code  for         packed  stored   size  malloc  calls
	        -  PTX   compute_80  none     186 B  186 B  no      -

	parts  kernel
	    1  kernel

	file          c.so
	malloc        no: calls no allocator
	code for      sm_90, sm_80, compute_80

	container  code   for         packed  stored   size  malloc  calls
	        1  cubin  sm_90       none     712 B  712 B  no      -
	        2  cubin  sm_80       none     712 B  712 B  no      -
	        2  PTX    compute_80  none     104 B  104 B  no      -

	parts  kernel
	    3  kernel

	file          d.cubin
	malloc        no: calls no allocator
	code for      sm_75

	container  code   for    packed  stored   size  malloc  calls
	        -  cubin  sm_75  none     712 B  712 B  no      -

	parts  kernel
	    1  kernel
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
	fails 1 'gpumemstat: text: is no device code of a known format' image text
	fails 1 'gpumemstat: host: has no device code' image --json host
	fails 1 "gpumemstat: $MKIMAGE: has no device code" image "$MKIMAGE"
	head -c 3000 "$MKIMAGE" >cut
	fails 1 'gpumemstat: cut: is not there to its end' image cut
	fails 1 "gpumemstat: '': no such file" image ''
	fails 1 'gpumemstat: a\x1b[1m\n\xff: no such file' image $'a\e[1m\n\xff'
}

@test "image of a file that is cut during the read" {
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
gpumemstat: wrapper: is no device code of a known format' image short shorter wrapper
	status=0
	"$TOOL" image --json short good none >out 2>err || status=$?
	[ "$status" -eq 1 ]
	diff -u - err <<<'gpumemstat: short: is damaged
gpumemstat: none: no such file'
	jq -e '[.files[].file] == ["good"]' out
	# The readable part is shown.
	mkimage two fatbin cubin:75 fatbin cubin:80:raw:free
	head -c 1200 two >cut
	status=0
	"$TOOL" image --json cut >out 2>err || status=$?
	[ "$status" -eq 1 ]
	[ ! -s err ]
	jq -e '.files[0] | .malloc == "unknown" and .why == "is damaged" and (.parts | length) == 1' out
}

@test "image names kernels, of packed code too, and for compiled code those of readelf" {
	mkimage a.fatbin fatbin cubin:75:raw:malloc,=device_function ptx:90
	"$TOOL" image --json a.fatbin | jq -e '.files[0].kernels == [{parts: 2, kernel: "kernel"}]'
	mkimage l.fatbin fatbin lto:90
	"$TOOL" image --json l.fatbin | jq -e '.files[0].kernels == []'
	if "$MKIMAGE" pack; then
		mkimage p.fatbin fatbin cubin:75:lz4:#200 ptx:90:zstd:malloc
		"$TOOL" image --json p.fatbin | jq -e '.files[0].kernels == [{parts: 2, kernel: "kernel"}]'
	fi
	compiled=$(echo "$BUILD"/src/takeover/*.cubin)
	compiled=${compiled%% *}
	[ -f "$compiled" ] || skip "no nvcc made a cubin"
	# readelf marks kernels by [<other>: 10].
	readelf --syms --wide "$compiled" | grep -F '<other>: 10' | awk '{print $NF}' | sort >kernels
	[ -s kernels ]
	"$TOOL" image --json "$compiled" | jq -r '.files[0].kernels[].kernel' | sort | diff kernels -
}

# An archive as a linker reads it: two members with code, three without, one of an odd size, one with a long
# name.
archive() {
	mkimage a.o host fatbin cubin:75:raw:malloc
	mkimage a_member_whose_name_is_long.o host fatbin cubin:80
	cp "$MKIMAGE" none.o
	: >empty.o
	printf odd >odd.o
	"${AR:-ar}" rc "$1" none.o a.o empty.o odd.o a_member_whose_name_is_long.o
}

@test "image reads the members of an archive" {
	archive lib.a
	"$TOOL" image lib.a >out
	diff -u - out <<-'END'
	file          lib.a(a.o)
	malloc        yes: calls an allocator: malloc
	code for      sm_75

	container  code   for    packed  stored   size  malloc  calls
	        1  cubin  sm_75  none     744 B  744 B  yes     malloc

	parts  kernel
	    1  kernel

	file          lib.a(a_member_whose_name_is_long.o)
	malloc        no: calls no allocator
	code for      sm_80

	container  code   for    packed  stored   size  malloc  calls
	        1  cubin  sm_80  none     712 B  712 B  no      -

	parts  kernel
	    1  kernel
	END
	"$TOOL" image --json lib.a a.o | jq -e '[.files[].file] == ["lib.a(a.o)", "lib.a(a_member_whose_name_is_long.o)", "a.o"]'
	# BSD's format: the name is before the content, and counted in its size.
	size=$(stat -c %s a.o)
	{ printf '!<arch>\n%-48s%-10d`\n%-20s' '#1/20           0           0     0     644' $((size + 20)) bsd.o | sed 's/bsd.o  */bsd.o/'
		head -c 15 /dev/zero; cat a.o; } >bsd.a
	"$TOOL" image --json bsd.a | jq -e '[.files[].file] == ["bsd.a(bsd.o)"]'
}

@test "image of archives that have no device code, are thin, or are damaged" {
	archive lib.a
	"${AR:-ar}" rc none.a none.o empty.o
	fails 1 'gpumemstat: none.a: an archive, and no member has device code' image none.a
	"${AR:-ar}" rcT thin.a a.o
	fails 1 'gpumemstat: thin.a: a thin archive: name the files that it lists' image thin.a
	head -c 8 lib.a >begin.a
	fails 1 'gpumemstat: begin.a: an archive, and no member has device code' image begin.a
	head -c 40 lib.a >head.a
	fails 1 'gpumemstat: head.a: a damaged archive' image head.a
	sed '0,/`/s//x/' lib.a >mark.a
	fails 1 'gpumemstat: mark.a: a damaged archive' image mark.a
	printf '!<arch>\n%-48s%-10s`\n' 'a.o/' 99999999999999999999 >size.a
	fails 1 'gpumemstat: size.a: a damaged archive' image size.a
	printf '!<arch>\n%-48s%-10s`\n' 'a.o/' 1 >short.a
	fails 1 'gpumemstat: short.a: a damaged archive' image short.a
	printf '!<arch>\n%-48s%-10s`\nxx' '/17' 2 >name.a
	fails 1 'gpumemstat: name.a: a damaged archive' image name.a
	printf '!<arch>\n%-48s%-10s`\nab/\n%-48s%-10s`\nxx' '//' 4 '/4' 2 >table.a
	fails 1 'gpumemstat: table.a: a damaged archive' image table.a
	printf '!<arch>\n%-48s%-10s`\nxx' '#1/3' 2 >inside.a
	fails 1 'gpumemstat: inside.a: a damaged archive' image inside.a
	# The intact members are shown.
	head -c -300 lib.a >cut.a
	status=0
	"$TOOL" image --json cut.a >out 2>err || status=$?
	[ "$status" -eq 1 ]
	diff -u - err <<<'gpumemstat: cut.a: a damaged archive'
	jq -e '[.files[].file] == ["cut.a(a.o)"]' out
	for seed in {1..100}; do
		"$MUTATE" lib.a bad.a $seed
		status=0
		"$TOOL" image bad.a >out 2>err || status=$?
		[ "$status" -le 1 ] || { echo "mutate lib.a bad.a $seed: $status"; return 1; }
		[ ! -s err ] || grep -q '^gpumemstat: bad.a' err
		[ "$status" -eq 0 ] || [ -s err ] || grep -q 'is damaged' out || { echo "mutate lib.a bad.a $seed: no word"; return 1; }
	done
}
