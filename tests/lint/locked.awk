# SPDX-License-Identifier: BSD-3-Clause
# awk -f locked.awk HEADER... SOURCE...: print each function under a heading such as "--- under the lock ---" or
# "--- the pool's lock is held ---", of its own file or of its prototype's, that neither asserts it nor takes a
# lock.

/^\/\* --- / {
	locked = /under .*lock|locks? (is|are) held/ && !/[Nn]o lock/
	next
}

FNR == 1 {
	locked = 0
	header = FILENAME ~ /\.h$/
	name = ""
}

# The first line of a function: its name is before the first parenthesis.
/^[A-Za-z_].*\(/ && !/^(typedef|struct [a-z_]+ \{|__attribute__)/ {
	split($0, part, "(")
	n = split(part[1], words, /[ *]+/)
	name = words[n]
	if (header && locked && !/^static/)
		wanted[name] = 1
	at = FNR
}

/^{/ && name != "" {
	body = 1
	held = 0
}

body && /_held\(|lock_take\(|_pool_lock\(|take_lock\(/ {
	held = 1
}

/^}/ && body {
	if (!held && (locked || name in wanted))
		print FILENAME ":" at ": " name
	body = 0
	name = ""
}
