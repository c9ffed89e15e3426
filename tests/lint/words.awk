# SPDX-License-Identifier: BSD-3-Clause
# awk -f words.awk words.txt SOURCE...: print the identifiers and file names of C sources that contain a word
# forbidden by words.txt. Comments, strings and #include lines are not read.

function is_excepted(identifier, file,    i) {
	for (i = 1; i <= exceptions; i++)
		if (identifier ~ ("^(" name[i] ")$") && file ~ ("^(" path[i] ")$"))
			return 1
	return 0
}

function judge(identifier,    part, n, i) {
	if (seen[FILENAME, identifier]++)
		return
	n = split(tolower(identifier), part, "_")
	for (i = 1; i <= n; i++)
		if (part[i] in forbidden && !is_excepted(identifier, FILENAME)) {
			print FILENAME ":" FNR ": " identifier
			return
		}
}

FILENAME ~ /words\.txt$/ {
	if ($1 == "word")
		forbidden[$2] = 1
	else if ($1 == "except") {
		exceptions++
		name[exceptions] = $2
		path[exceptions] = $3
	}
	next
}

FNR == 1 {
	in_comment = 0
	n = split(FILENAME, part, "/")
	sub(/\..*/, "", part[n])
	judge(part[n])
}

{
	line = $0
	code = ""
	if (!in_comment && line ~ /^[ \t]*#[ \t]*include/)
		next
	while (line != "") {
		if (in_comment) {
			end = index(line, "*/")
			if (!end)
				break
			line = substr(line, end + 2)
			in_comment = 0
		} else if (match(line, /^("([^"\\]|\\.)*"|'([^'\\]|\\.)*')/)) {
			code = code " "
			line = substr(line, RLENGTH + 1)
		} else if (line ~ /^\/\//) {
			break
		} else if (line ~ /^\/\*/) {
			in_comment = 1
			line = substr(line, 3)
		} else {
			match(line, /^([A-Za-z_0-9]+|[^A-Za-z_0-9"'\/]+|.)/)
			code = code substr(line, 1, RLENGTH)
			line = substr(line, RLENGTH + 1)
		}
	}
	while (match(code, /[A-Za-z_][A-Za-z_0-9]*/)) {
		judge(substr(code, RSTART, RLENGTH))
		code = substr(code, RSTART + RLENGTH)
	}
}
