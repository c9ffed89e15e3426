# SPDX-License-Identifier: BSD-3-Clause
"""gpumem: a pool of device memory for unmodified CUDA programs, and gpumemstat, which reads its logs.

`gpumemstat ARGUMENT...`, `gpumem-preload ARGUMENT...` and `python -m gpumem_preload ARGUMENT...` run the same
program. `python -m gpumem_preload --prefix` prints the folder of this package, which has

    bin/gpumemstat             the program itself
    lib/libgpumem.so           for LD_PRELOAD
    lib/libgpumem-core.so.0    the library of gpumem(3): -L, LD_LIBRARY_PATH, ctypes
    lib/pkgconfig              PKG_CONFIG_PATH
    include                    -I: gpumem.h, gpumem_vector.hpp, gpumem_device.cuh

The same folder is `gpumem_preload.prefix`.
"""

import os

prefix = os.path.dirname(os.path.abspath(__file__))
