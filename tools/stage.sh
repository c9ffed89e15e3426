#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stage.sh STAGE: make a relocatable folder of STAGE, into which `make install` put its files with an empty
# prefix. Static libraries, .la files, debug symbols and the build's paths are removed.
set -e
stage=$1
rm -f "$stage"/lib/*.la "$stage"/lib/*.a
find "$stage/lib" "$stage/bin" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -100 \) -exec "${STRIP:-strip}" --strip-unneeded {} +
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|; s|^\(exec_prefix\)=.*|\1=${prefix}|; s|^\(libdir\)=.*|\1=${exec_prefix}/lib|
	s|^\(includedir\)=.*|\1=${prefix}/include|' "$stage/lib/pkgconfig/gpumem.pc"
