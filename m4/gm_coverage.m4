# SPDX-License-Identifier: BSD-3-Clause
# GM_COVERAGE: --enable-coverage builds without optimisation and counts how often each line runs (`make coverage`).
AC_DEFUN([GM_COVERAGE], [
AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage], [count the lines that the tests run])])
AS_IF([test "x$enable_coverage" = xyes], [CFLAGS="$CFLAGS -O0 --coverage -fprofile-update=atomic"])
AM_CONDITIONAL([COVERAGE], [test "x$enable_coverage" = xyes])
])
