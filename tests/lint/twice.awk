# SPDX-License-Identifier: BSD-3-Clause
# Functions gm_* that two files define: an archive's link takes one of them, and says nothing.
/^[a-z].*[ *]gm_[a-z0-9_]+\(/ && !/^static|^typedef|^extern|;[ \t]*$|=/ {
	match($0, /gm_[a-z0-9_]+\(/)
	name = substr($0, RSTART, RLENGTH - 1)
	if (name in at && at[name] != FILENAME)
		print name ": " at[name] " and " FILENAME
	at[name] = FILENAME
}
