#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The plugin of pytest in the wheel, by -p; tests/packages/wheel.sh installs it. Each test is a process of its own.
source "$BATS_TEST_DIRNAME/cli.bash"
TOP=$BATS_TEST_DIRNAME/../..

# The package of the wheel, with the gpumemstat of this build; and tests of pytest that allocate.
suite() {
	[ -z "${SANITIZE_LIB:-}" ] || skip "Python has no sanitizer"
	[ -z "$TEST_UNDER" ] || skip "Python would run under memcheck, too"
	PYTEST=
	for python in "${PYTHON:-python3}" /usr/bin/python3; do
		! "$python" -c 'import sys, pytest; sys.exit(pytest.version_tuple < (7,))' 2>/dev/null || PYTEST=$python
	done
	[ -n "$PYTEST" ] || skip "no pytest 7 or later"
	mkdir -p env/gpumem_preload/bin
	cp "$TOP"/tools/wheel/package/*.py env/gpumem_preload
	printf '#!/bin/sh\nexec %s "$@"\n' "$TOOL" >env/gpumem_preload/bin/gpumemstat
	chmod +x env/gpumem_preload/bin/gpumemstat
	cat >test_memory.py <<-'END'
		import ctypes, os, pytest

		def allocate(mib):
		    pointer = ctypes.c_void_p()
		    assert ctypes.CDLL("libcudart.so").cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib << 20)) == 0
		    return pointer

		def free(pointer):
		    assert ctypes.CDLL("libcudart.so").cudaFree(pointer) == 0

		limits = pytest.mark.gpumem_limits
	END
	cat >>test_memory.py
}

# pytest ARGUMENT...: its output in `out`, its exit status in `status`.
pytest() {
	status=0
	PYTHONPATH=$PWD/env "$PYTEST" -m pytest -p gpumem_preload.pytest_plugin -p no:cacheprovider --strict-markers "$@" >out 2>&1 || status=$?
}

@test "pytest --gpumem: a test within its limits passes, one above a limit fails with the message of check" {
	suite <<-'END'
		@limits(peak="8MiB", leaks=False, failed=0)
		def test_within():
		    free(allocate(4))

		@limits(peak="8MiB")
		@limits(leaks=False)
		def test_above():
		    allocate(16)

		@limits(leaks=False)
		@pytest.mark.parametrize("mib", [1, 2])
		def test_leak(mib, tmp_path):
		    assert tmp_path.exists() and "libgpumem" in os.environ["LD_PRELOAD"]
		    allocate(mib)

		def test_unmarked():
		    assert "LD_PRELOAD" not in os.environ
	END
	pytest --gpumem
	[ "$status" -eq 1 ]
	grep -q '3 failed, 2 passed' out
	grep -qx 'gpumem-logs/test_memory.py-test_above.gml: device 0: requested_peak is 16.0 MiB, above 8.00 MiB' out
	grep -qx 'gpumem-logs/test_memory.py-test_above.gml: device 0: live_blocks is 1, above 0 (--no-leaks)' out
	[ "$(ls gpumem-logs | wc -l)" -eq 4 ]
	"$TOOL" check --no-leaks gpumem-logs/test_memory.py-test_within.gml
	# Again: the logs are replaced. Elsewhere: the other folder is not touched.
	pytest --gpumem --gpumem-logs=other -k within
	[ "$status" -eq 0 ]
	[ "$(ls other)" = test_memory.py-test_within.gml ]
	pytest --gpumem
	[ "$(ls gpumem-logs | wc -l)" -eq 4 ]
	# Without the option a mark has no effect.
	pytest -k 'above or within'
	[ "$status" -eq 0 ]
}

@test "pytest --gpumem: a test that fails, is skipped, is killed, or uses no CUDA has its own message" {
	suite <<-'END'
		pytestmark = limits(peak="8MiB")

		def test_fails():
		    print("said by the test")
		    assert allocate(1) is None

		def test_skipped():
		    pytest.skip("not here")

		@pytest.mark.xfail
		def test_expected():
		    assert False

		def test_killed():
		    print("said before the end", flush=True)
		    os.kill(os.getpid(), 9)

		def test_idle():
		    pass

		@pytest.fixture
		def broken():
		    raise ValueError("no fixture")

		def test_broken(broken):
		    pass
	END
	pytest --gpumem -ra -s
	[ "$status" -eq 1 ]
	grep -q '3 failed, 1 skipped, 1 xfailed, 1 error' out
	grep -q '^E  *assert c_void_p([0-9]*) is None$' out
	grep -q '^SKIPPED \[1\] test_memory.py:[0-9]*: not here$' out
	grep -qx 'the process of the test ended with status 137' out
	grep -qx 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' out
	grep -q 'ValueError: no fixture' out
}

@test "pytest --gpumem: wrong marks are reported" {
	suite <<-'END'
		@limits()
		def test_none():
		    pass

		@limits(leaks=True)
		def test_all():
		    pass

		@limits(no_such=1)
		def test_wrong():
		    pass
	END
	pytest --gpumem
	grep -q '3 failed' out
	[ "$(grep -cx 'gpumem_limits has no limit: peak, leaks=False or a counter' out)" -eq 2 ]
	grep -q "^gpumemstat: --max=no_such=1: no counter 'no_such'" out
}

@test "the steps of doc/ci-example.yml run: tests, and the page of their logs" {
	suite <<-'END'
		@limits(peak="8MiB")
		def test_above():
		    allocate(16)
	END
	mkdir -p env/bin
	printf '#!/bin/sh\nPYTHONPATH=%s/env exec %s -m pytest -p gpumem_preload.pytest_plugin "$@"\n' "$PWD" "$PYTEST" >env/bin/pytest
	printf '#!/bin/sh\nexec %s "$@"\n' "$TOOL" >env/bin/gpumemstat
	chmod +x env/bin/*
	sed -n 's/^ *- run: \(env\/.*\)/\1/p' "$TOP/doc/ci-example.yml" >steps
	[ "$(wc -l <steps)" -eq 2 ]
	refute bash -ec "$(sed -n 1p steps)"
	bash -ec "$(sed -n 2p steps)"
	grep -q '<html' gpumem.html
	grep -q test_above gpumem.html
}
