# SPDX-License-Identifier: BSD-3-Clause
# GM_GPU_ARCHS: --with-gpu-archs. Needs NVCC. Sets GPU_ARCHS_ALL, the generations of GPUs that NVCC compiles for;
# GPU_ARCHS, those that `make` compiles for; GPU_ARCHS_INSTALL, those that `make install` and the bundles compile for.
AC_DEFUN([GM_GPU_ARCHS], [
AC_ARG_WITH([gpu-archs], [AS_HELP_STRING([--with-gpu-archs=WHICH],
	[the GPUs that device code is compiled for: `native', those of this machine, or the oldest supported one if it has
	none, while `make install' compiles for all; `all'; or a list such as 80,90. PTX for others is always included
	@<:@native@:>@])], [], [with_gpu_archs=native])
AC_MSG_CHECKING([for the GPUs that device code is compiled for])
# One of each generation: its code runs on the later ones of that generation, too. PTX serves what nvcc does not know.
gm_known=" `"$NVCC" --list-gpu-code | tr '\n' ' '` "
gm_all=
for gm_arch in 75 80 90 100 110 120; do
	AS_CASE([$gm_known], [*" sm_$gm_arch "*], [gm_all="$gm_all $gm_arch"])
done
gm_all=${gm_all# }
AS_IF([test -z "$gm_all"], [AC_MSG_ERROR([$NVCC compiles for no GPU that is supported])])
gm_install=
AS_CASE([$with_gpu_archs],
[all], [gm_archs=$gm_all],
[native], [gm_archs=
	gm_install=all
	for gm_cap in `timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d .`; do
		gm_found=
		for gm_arch in $gm_all; do
			AS_IF([test "$gm_cap" -ge $gm_arch 2>/dev/null && test ${gm_cap%?} = ${gm_arch%?}], [gm_found=$gm_arch])
		done
		AS_CASE([" $gm_archs "], [*" $gm_found "*], [], [gm_archs="$gm_archs${gm_archs:+ }$gm_found"])
	done
	gm_archs=${gm_archs:-${gm_all%% *}}],
[gm_archs=`echo "$with_gpu_archs" | tr , ' '`
	for gm_arch in $gm_archs; do
		AS_CASE([" $gm_all "], [*" $gm_arch "*], [],
			[AC_MSG_ERROR([--with-gpu-archs: $gm_arch is none of native, all, $gm_all])])
	done])
AS_IF([test -z "$gm_archs"], [AC_MSG_ERROR([--with-gpu-archs: the list is empty])])
AC_MSG_RESULT([$gm_archs])
AC_SUBST([GPU_ARCHS], [$gm_archs])
AC_SUBST([GPU_ARCHS_ALL], [$gm_all])
AC_SUBST([GPU_ARCHS_INSTALL], [$gm_install])
])
