# SPDX-License-Identifier: BSD-3-Clause
# The numbers of a packed list in the data of `gpumemstat report`: tools/output/pack.h has the format.
import base64


def numbers(packed):
    value, unit = 0, 1
    for byte in base64.b64decode(packed, validate=True):
        value += (byte & 127) * unit
        unit *= 128
        if not byte & 128:
            yield value
            value, unit = 0, 1
    assert unit == 1, "a number without its end"
