# SPDX-License-Identifier: BSD-3-Clause
# GM_SANITIZE: --enable-sanitize=address|thread|undefined, or address,undefined. SANITIZE_LIB is what a test must preload
# before libgpumem.so; that of AddressSanitizer brings the other's along. RACE: ThreadSanitizer runs on this machine, and
# a test may be built with it, for no other sanitizer is in the build.
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
AS_IF([test -n "$enable_sanitize" && test "x$enable_sanitize" != xno], [gm_cv_race=no])
AC_CACHE_CHECK([whether ThreadSanitizer runs], [gm_cv_race],
	[gm_cflags=$CFLAGS
	CFLAGS="$CFLAGS -fsanitize=thread"
	AC_RUN_IFELSE([AC_LANG_PROGRAM([[#include <sanitizer/tsan_interface.h>]], [[__tsan_destroy_fiber(__tsan_create_fiber(0))]])],
		[gm_cv_race=yes], [gm_cv_race=no], [gm_cv_race=no])
	CFLAGS=$gm_cflags])
AM_CONDITIONAL([RACE], [test "x$gm_cv_race" = xyes])
])
