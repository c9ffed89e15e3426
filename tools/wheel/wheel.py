#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wheel.py STAGE SOURCE WHEEL SECONDS: write the wheel of the relocatable folder STAGE (tools/stage.sh).

The name WHEEL has name, version and tags. STAGE/share goes to the data of the wheel, which pip puts into the
environment's own share; the rest goes into the package, with the Python files of SOURCE/tools/wheel/package.
The same files give the same bytes: entries are sorted, and have the time SECONDS (since 1970) and no owner.
"""

import base64
import csv
import hashlib
import io
import os
import re
import stat
import sys
import time
import zipfile

ZIP_FIRST, ZIP_LAST = 315532800, 4354819198  # what a zip can hold: 1980 to 2107

WHEEL = """\
Wheel-Version: 1.0
Generator: gpumem {version}
Root-Is-Purelib: false
Tag: {tag}
"""

# {0} is the package.
ENTRY_POINTS = """\
[console_scripts]
{1} = {0}.__main__:main
gpumemstat = {0}.__main__:gpumemstat

[pytest11]
gpumem = {0}.pytest_plugin
"""

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
License-Expression: BSD-3-Clause
License-File: LICENSE
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def linked(stage):
    """The links of lib: {name: name of its file}."""
    lib = os.path.join(stage, "lib")
    return {name: os.path.basename(os.path.realpath(os.path.join(lib, name)))
            for name in os.listdir(lib) if os.path.islink(os.path.join(lib, name))}


def libraries(stage):
    """Yield (path in STAGE, bytes, executable) for files that links name: a wheel has no links.

    The file gets the name that programs load (lib.so.0). A linker script gets the name for -l (lib.so): a
    second copy could be loaded beside the first.
    """
    links = linked(stage)
    for name, target in links.items():
        if name.endswith(".so"):
            loaded = [other for other in links if links[other] == target and other != name]
            if len(loaded) != 1:
                sys.exit("wheel.py: %s has not one other name: %s" % (name, loaded))
            yield "lib/" + name, ("INPUT(%s)\n" % loaded[0]).encode(), False
        else:
            yield "lib/" + name, read(stage, "lib", target), True


def staged(stage):
    """Yield (path in STAGE, bytes, executable) for every file of the wheel that comes from STAGE."""
    yield from libraries(stage)
    left_out = {os.path.join(stage, "lib", target) for target in linked(stage).values()}
    for folder, _, names in os.walk(stage):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                if folder != os.path.join(stage, "lib"):
                    sys.exit("wheel.py: %s is a link, which a wheel cannot have" % path)
            elif path not in left_out:
                executable = bool(os.stat(path).st_mode & stat.S_IXUSR)
                yield os.path.relpath(path, stage), read(path), executable


def described(stage):
    """The Description of pkg-config's file."""
    text = read(stage, "lib", "pkgconfig", "gpumem.pc").decode()
    return re.search("^Description: (.*)$", text, re.MULTILINE).group(1)


def collect(stage, source, wheel):
    """{path in the wheel: (bytes, executable)}, without RECORD; and the folder of RECORD."""
    parts = re.fullmatch(r"([a-z_]+)-([0-9.]+)-(py3-none-[a-z0-9_]+)\.whl", os.path.basename(wheel))
    if not parts:
        sys.exit("wheel.py: %s is no name of a wheel" % wheel)
    package, version, tag = parts.groups()
    name = package.replace("_", "-")
    info = "%s-%s.dist-info" % (package, version)
    files = {}
    for path, data, executable in staged(stage):
        shared = path.startswith("share" + os.sep)
        top = "%s-%s.data/data" % (package, version) if shared else package
        files["%s/%s" % (top, path)] = (data, executable)
    for path in ("__init__.py", "__main__.py", "pytest_plugin.py"):
        files["%s/%s" % (package, path)] = (read(source, "tools", "wheel", "package", path), False)
    text = {
        "WHEEL": WHEEL.format(version=version, tag=tag),
        "METADATA": METADATA.format(name=name, version=version, summary=described(stage),
                                    description=read(source, "README.md").decode()),
        "entry_points.txt": ENTRY_POINTS.format(package, name),
    }
    for path, words in text.items():
        files["%s/%s" % (info, path)] = (words.encode(), False)
    files[info + "/licenses/LICENSE"] = (read(source, "LICENSE"), False)
    return files, info


def record(files, path):
    """RECORD: each file with its hash and size; itself with neither."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for name in sorted(files):
        data = files[name][0]
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, "sha256=" + digest, len(data)])
    rows.writerow([path, "", ""])
    return out.getvalue().encode()


def write(files, info, wheel, seconds):
    """Write the files in the order of their names: those of dist-info behind the others, RECORD last."""
    when = time.gmtime(min(max(seconds, ZIP_FIRST), ZIP_LAST))[:6]
    with zipfile.ZipFile(wheel + "-t", "w") as archive:
        for name in sorted(files, key=lambda name: (name.startswith(info), name == info + "/RECORD", name)):
            data, executable = files[name]
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix: the attributes are its mode
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    os.replace(wheel + "-t", wheel)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.partition("\n")[0])
    stage, source, wheel, seconds = sys.argv[1:]
    files, info = collect(stage, source, wheel)
    path = info + "/RECORD"
    files[path] = (record(files, path), False)
    write(files, info, wheel, int(seconds))


main()
