#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure from configure.ac: what autoreconf --install does, in half the time, for it runs most of these twice.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux
libtoolize --copy --quiet
aclocal -I m4 --install
autoconf
autoheader
automake --add-missing --copy
