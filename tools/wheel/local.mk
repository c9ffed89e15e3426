# SPDX-License-Identifier: BSD-3-Clause
# A wheel for pip. Its name is not gpumem, which another project has on the Python index (HACKING.md).
WHEEL = gpumem_preload-$(PACKAGE_VERSION)-py3-none-manylinux_2_28_$(host_cpu).whl
WHEEL_STAGE = gpumem-wheel
EXTRA_DIST += %D%/package/__init__.py %D%/package/__main__.py %D%/package/pytest_plugin.py %D%/wheel.py
CLEANFILES += $(WHEEL)
.PHONY: wheel
wheel:
	$(MAKE) $(AM_MAKEFLAGS) stage STAGE=$(WHEEL_STAGE)
	$${PYTHON:-python3} $(srcdir)/%D%/wheel.py $(WHEEL_STAGE) $(srcdir) $(WHEEL) $(PACKED_AT)
	rm -rf $(WHEEL_STAGE)
	@echo "$(WHEEL): pip install it, and run gpumemstat"
