# SPDX-License-Identifier: BSD-3-Clause
# awk -f layers.awk layers.txt SOURCE...: print each include of a layer above the file's own, or of a folder
# in no layer. With -v as=FILE each source is judged as FILE.

# The layer of "src/pool/x.c" and of "pool/x.h" is pool. A path without a folder has "": a file of the same
# folder, or a header of the compiler.
function layer_of(path) {
	sub(/^(.*\/)?src\//, "", path)
	return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
}

FILENAME ~ /layers\.txt$/ {
	if (/^#/ || !NF)
		next
	if ($1 == "except")
		excepted[$2, $3] = 1
	else {
		height++
		for (i = 1; i <= NF; i++)
			rank[$i] = height
	}
	next
}

FNR == 1 {
	file = as ? as : FILENAME
	own = layer_of(file)
	beside = own == "sim"
}

!beside && /^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, part, "\"")
	other = layer_of(part[2])
	if (other == "" || (file, part[2]) in excepted)
		next
	if (!(own in rank))
		print file ": in no layer"
	else if (!(other in rank) ? other != own : rank[other] > rank[own])
		print file ":" FNR ": " part[2]
}
