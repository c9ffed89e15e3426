# SPDX-License-Identifier: BSD-3-Clause
# awk -v srcdir=DIR -v built="PROGRAM LIBRARY..." -f needs.awk TEST...: print what each test needs of what is built
# for tests. A program that is a test needs itself. A script needs a program if the folder and the name of it are
# words of the script, or of a script that it names: tests/preload and `forks`. The name ends before `-` and `.`,
# since scripts make ask-O2 from `ask-$level`; of a file in a further folder, tests/preload/plain/libcuda.so.1, it is
# that folder's. Comments and titles do not count. A test that is neither such a program nor a file needs all.

# Add the words of a file of tests/, and the files that it names; false if there is no such file.
function read_script(path,    line, folder, found, status) {
	if (path in seen)
		return 1
	if ((status = (getline line <(srcdir "/" path))) < 0)
		return 0
	seen[path] = 1
	folder = path
	sub(/\/[^\/]*$/, "", folder)
	for (; status > 0; status = (getline line <(srcdir "/" path))) {
		sub(/^[ \t]*#.*/, "", line)
		sub(/^@test ".*" \{$/, "", line)
		text = text " " line
		if (path ~ /\.py$/ && line ~ /^[ \t]*(import|from) [a-z_]+/) {
			split(line, found, /^[ \t]*(import|from) |[^A-Za-z0-9_]/)
			read_script(folder "/" found[2] ".py")
		}
		while (match(line, /([A-Za-z0-9_]+\/)?[A-Za-z0-9_]+\.(bash|bats|py|sh)/)) {
			found[1] = substr(line, RSTART, RLENGTH)
			line = substr(line, RSTART + RLENGTH)
			found[2] = found[1]
			sub(/.*\//, "", found[2])
			if (!read_script("tests/" found[1]) && !read_script(folder "/" found[2]))
				read_script("tests/" found[2])
		}
	}
	close(srcdir "/" path)
	return 1
}

function add_needs(    i, n, part, words, word) {
	n = split(text, part, /[^A-Za-z0-9_]+/)
	for (i = 1; i <= n; i++)
		words[part[i]] = 1
	for (i = 1; i <= things; i++) {
		n = split(thing[i], part, "/")
		word = n > 3 ? part[3] : part[n]
		sub(/[-.].*/, "", word)
		if (word in words && index(text, part[1] "/" part[2]))
			needed[i] = 1
	}
}

BEGIN {
	things = split(built, thing, " ")
	for (i = 1; i <= things; i++)
		place[thing[i]] = i
	for (test = 1; test < ARGC; test++)
		if (ARGV[test] in place) {
			needed[place[ARGV[test]]] = 1
		} else {
			text = ""
			split("", seen)
			if (read_script(ARGV[test]))
				add_needs()
			else
				for (i = 1; i <= things; i++)
					needed[i] = 1
		}
	for (i = 1; i <= things; i++)
		if (i in needed)
			print thing[i]
}
