# SPDX-License-Identifier: BSD-3-Clause
"""heap_masks.py CUBIN...: counts *_sync calls that take all lanes' masks, and those that take one lane's.

Before an instruction of several lanes ptxas makes a branch, BRA.DIV, to code that waits for the lanes of a
mask. The branch is not taken if all lanes in a uniform register are present. REDUX puts the masks of all
lanes into that register. R2UR puts one lane's mask into it; this is right only if all lanes that can arrive
have the same mask (gm_mask_hide in simt_gpu.h). Prints "CUBIN: N by all lanes, M by one lane". Instructions
have 128 bits; the opcodes are those of sm_80 to sm_120.
"""

import struct
import sys

BRANCH, WITH_UNIFORM = 0x947, 0x08000000  # BRA; it has a uniform register: DIV or CONV
ONE_LANE, ALL_LANES = (0x2CA, 0x3C2), (0x3C4,)  # R2UR, REDUX
NONE = (0x3F, 0xFF)  # URZ


def sections(image):
    """The code sections of a cubin."""
    (at,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    text = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if image[text + name:].startswith(b".text."):
            yield image[offset:offset + length]


def count(code):
    """Count the branches of a function, by the source of their mask: all lanes or one lane."""
    writer, found = {}, {"all": 0, "one": 0}
    for low, high in struct.iter_unpack("<QQ", code[:len(code) // 16 * 16]):
        opcode, target = low & 0xFFF, low >> 16 & 0xFF
        if opcode in ONE_LANE and target not in NONE:
            writer[target] = "one"
        elif opcode in ALL_LANES:
            writer[target] = "all"
        elif opcode == BRANCH and high & WITH_UNIFORM:
            kind = writer.get(low >> 24 & 0xFF)
            if kind:
                found[kind] += 1
    return found


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        image = file.read()
    counts = [count(code) for code in sections(image)]
    total = {kind: sum(count[kind] for count in counts) for kind in ("all", "one")}
    print(f"{path}: {total['all']} by all lanes, {total['one']} by one lane")
