# SPDX-License-Identifier: BSD-3-Clause
# GM_NAME_CHECK(WHAT, FOLDER, REMEDY): for make and libtool a name ends at a blank, and shells expand the other characters.
# These are the ones that autoconf itself refuses as "unsafe", without a remedy, in the folders of source and build.
AC_DEFUN([GM_NAME_CHECK], [
AS_CASE(["$2"], [*[[\\\"\#\$\&\'\`\ \	]]*],
	[AC_MSG_ERROR([$1 '$2' has a blank or a special character in its name, which make and libtool cannot handle: $3])])])
# GM_FOLDERS: the folders of the source, the build and the installation. Before AM_INIT_AUTOMAKE.
AC_DEFUN([GM_FOLDERS], [
gm_build=`pwd`
gm_source=`cd "$srcdir" && pwd`
GM_NAME_CHECK([the source folder], [$gm_source], [move it])
GM_NAME_CHECK([the build folder], [$gm_build], [build in another folder])
GM_NAME_CHECK([the prefix], [$prefix], [give another --prefix])
])
