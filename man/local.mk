# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/gpumem.7
