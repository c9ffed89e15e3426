#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bundle.sh STAGE NAME SECONDS: make NAME.tar.gz of the relocatable folder STAGE (stage.sh). The same files give
# the same bytes: every entry has the time SECONDS (since 1970) and the owner 0:0.
set -e
stage=$1 name=$2 seconds=$3
LC_ALL=C tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
	--mtime="@$seconds" --transform="s|^[.]|$name|S" --directory="$stage" . | gzip -9n >"$name.tar.gz-t"
mv "$name.tar.gz-t" "$name.tar.gz"
