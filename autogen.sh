#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure from configure.ac.
cd "$(dirname "$0")" && exec autoreconf --install
