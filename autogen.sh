#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure from configure.ac, as autoreconf --install does, but in half the time: autoreconf runs most
# of these commands twice.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux
libtoolize --copy --quiet
aclocal -I m4 --install
autoconf
autoheader
automake --add-missing --copy
