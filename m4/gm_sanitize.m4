# SPDX-License-Identifier: BSD-3-Clause
# GM_SANITIZE: --enable-sanitize=address|thread|undefined, or address,undefined. SANITIZE_LIB is what a test must preload
# before libgpumem.so; that of AddressSanitizer brings the other's along.
AC_DEFUN([GM_SANITIZE], [
AC_ARG_ENABLE([sanitize],
	[AS_HELP_STRING([--enable-sanitize=LIST], [build with sanitizers: address, undefined, both with a comma, or thread])])
SANITIZE_LIB=
AS_CASE([$enable_sanitize],
	[address|address,undefined], [SANITIZE_LIB=`$CC -print-file-name=libasan.so`],
	[thread], [SANITIZE_LIB=`$CC -print-file-name=libtsan.so`],
	[undefined], [SANITIZE_LIB=`$CC -print-file-name=libubsan.so`],
	[no|''], [],
	[AC_MSG_ERROR([--enable-sanitize takes address, undefined, address,undefined or thread, not '$enable_sanitize'])])
AS_IF([test -n "$enable_sanitize" && test "x$enable_sanitize" != xno],
	[CFLAGS="$CFLAGS -fsanitize=$enable_sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer"])
# gcc leaves this one out of `undefined`.
AS_CASE([$enable_sanitize], [*undefined], [CFLAGS="$CFLAGS -fsanitize=float-cast-overflow"])
AC_SUBST([SANITIZE_LIB])
AM_CONDITIONAL([SANITIZE], [test -n "$enable_sanitize" && test "x$enable_sanitize" != xno])
])
