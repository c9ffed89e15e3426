# SPDX-License-Identifier: BSD-3-Clause
# Packages of `make install`'s files, installed and used as their users do: make check-wheel.
dist_check_SCRIPTS += %D%/wheel.sh
EXTRA_DIST += %D%/packages.bash
