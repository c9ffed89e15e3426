#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure from configure.ac, as autoreconf --install does, but in half the time: autoreconf runs most
# of these commands twice.
set -e
cd "$(dirname "$0")"
# configure would refuse the folder, after the work below.
case $PWD in
*[[:space:]\\\"#\$\&\'\`]*)
	echo "autogen.sh: make cannot handle the blank or special character in '$PWD': move the folder" >&2
	exit 1
	;;
esac
packages=
for command in autoconf:autoconf autoheader:autoconf aclocal:automake automake:automake libtoolize:libtool; do
	command -v "${command%:*}" >/dev/null || case " $packages " in
	*" ${command#*:} "*) ;;
	*) packages="$packages ${command#*:}" ;;
	esac
done
if [ -n "$packages" ]; then
	echo "autogen.sh: please install these packages first:$packages" >&2
	exit 1
fi
mkdir -p build-aux
libtoolize --copy --quiet
aclocal -I m4 --install
autoconf
autoheader
automake --add-missing --copy
