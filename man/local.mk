# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/gpumem.3
dist_man_MANS += man/gpumem.7
dist_man_MANS += man/gpumem_device.3
dist_man_MANS += man/gpumem-log.5
dist_man_MANS += man/gpumem.conf.5
dist_man_MANS += man/gpumemstat.1
