# SPDX-License-Identifier: BSD-3-Clause
# gpumem_device.cuh in one file: awk -f flatten.awk -v src=SRC IN replaces each #include of a header of SRC by
# that header, recursively, once for each header.
function put(file, inner,    line, name) {
	while ((getline line < file) > 0) {
		if (line ~ /^#include "(heap|sim)\//) {
			name = line
			gsub(/^#include "|".*$/, "", name)
			if (name ~ /simt_cpu/)
				print "#error \"gpumem_device.cuh is for nvcc\""
			else if (!(name in done)) {
				done[name] = 1
				put(src "/" name, 1)
			}
		} else if (!(inner && line ~ /SPDX-License-Identifier/)) {
			print line
		}
	}
	close(file)
}
BEGIN {
	put(ARGV[1], 0)
	exit
}
