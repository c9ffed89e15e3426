#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bundle.sh STAGE NAME SECONDS: make NAME.tar.gz of the files that `make install` put into STAGE with an empty
# prefix. Static libraries, .la files, debug symbols and the build's paths are removed. The same files give
# the same bytes: every entry has the time SECONDS (since 1970) and the owner 0:0.
set -e
stage=$1 name=$2 seconds=$3
rm -f "$stage"/lib/*.la "$stage"/lib/*.a
find "$stage/lib" "$stage/bin" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -100 \) -exec "${STRIP:-strip}" --strip-unneeded {} +
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|; s|^\(exec_prefix\)=.*|\1=${prefix}|; s|^\(libdir\)=.*|\1=${exec_prefix}/lib|
	s|^\(includedir\)=.*|\1=${prefix}/include|' "$stage/lib/pkgconfig/gpumem.pc"
LC_ALL=C tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
	--mtime="@$seconds" --transform="s|^[.]|$name|S" --directory="$stage" . | gzip -9n >"$name.tar.gz-t"
mv "$name.tar.gz-t" "$name.tar.gz"
