# SPDX-License-Identifier: BSD-3-Clause
# GM_CUDA: --with-cuda=DIR, else $CUDA_HOME, else the usual places, else the folder that quickstart fetched into.
# Sets CUDA_CPPFLAGS (cuda.h and cudaTypedefs.h are enough to build), CUDA_HOME, NVCC and the conditional HAVE_NVCC;
# GM_HELPERS, where the device code for malloc in kernels can be built.
AC_DEFUN([GM_CUDA], [
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [the CUDA Toolkit, 12 or 13 (its headers are enough)])])
AC_MSG_CHECKING([for the CUDA Toolkit])
gm_cuda=
for gm_dir in "$with_cuda" "$CUDA_HOME" /usr/local/cuda /opt/cuda /usr/lib/cuda "$srcdir"/.cuda/toolkit /usr; do
	AS_IF([test -z "$gm_cuda" && test -n "$gm_dir" && test -f "$gm_dir/include/cudaTypedefs.h"],
	      [gm_cuda=`cd "$gm_dir" && pwd`])
	AS_IF([test -z "$gm_cuda" && test -n "$with_cuda"], [break])
done
AS_IF([test -z "$gm_cuda"], [AC_MSG_RESULT([no])
	AC_MSG_ERROR([no CUDA Toolkit (include/cudaTypedefs.h) found: give --with-cuda=DIR, or run ./quickstart, which fetches one])])
AC_MSG_RESULT([$gm_cuda])
GM_NAME_CHECK([the CUDA Toolkit], [$gm_cuda], [make a link to it, and give that to --with-cuda])
AC_SUBST([CUDA_HOME], [$gm_cuda])
AC_SUBST([CUDA_CPPFLAGS], ["-isystem $gm_cuda/include"])
AC_PATH_PROG([NVCC], [nvcc], [], [$gm_cuda/bin$PATH_SEPARATOR$PATH])
AM_CONDITIONAL([HAVE_NVCC], [test -n "$NVCC"])
gm_helpers=yes
for gm_tool in "$NVCC" "${NVCC%nvcc}nvlink" "${NVCC%nvcc}fatbinary"; do
	AS_IF([test ! -x "$gm_tool"], [gm_helpers=no])
done
AS_IF([test $gm_helpers = yes], [AC_DEFINE([GM_HELPERS], [1])
	GM_GPU_ARCHS],
	[AC_MSG_WARN([no nvcc, nvlink and fatbinary: this build leaves malloc in kernels to the driver])])
AH_TEMPLATE([GM_HELPERS], [Device code for malloc in kernels is built in])
AM_CONDITIONAL([GM_HELPERS], [test $gm_helpers = yes])
])
