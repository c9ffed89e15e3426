# SPDX-License-Identifier: BSD-3-Clause
"""The device's used memory, polled by a process of its own, measured like client.c: see client.h.

    framework_memory.py [ORDINAL]

From `watch` to `peak` NVML is polled each millisecond (module pynvml); without this module, nvidia-smi as
often as possible. `peak` answers the most bytes in use since `watch`, and the number of polls; `now` answers
the bytes in use. At other times nothing is polled, because each query takes a lock of the driver."""
import subprocess
import sys
import threading
import time

PERIOD = 0.001


def reader_of_nvml(ordinal):
    import pynvml
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(ordinal)
    return lambda: pynvml.nvmlDeviceGetMemoryInfo(device).used


def reader_of_tool(ordinal):
    command = ["nvidia-smi", "-i", str(ordinal), "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return lambda: int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) << 20


def reader(ordinal):
    try:
        return reader_of_nvml(ordinal)
    except Exception:  # the module or its library is missing
        return reader_of_tool(ordinal)


class Poll(threading.Thread):
    def __init__(self, read):
        super().__init__(daemon=True)
        self.read, self.on, self.lock, self.most, self.count = read, threading.Event(), threading.Lock(), 0, 0

    def look(self):
        with self.lock:
            self.most, self.count = max(self.most, self.read()), self.count + 1

    def run(self):
        while self.on.wait():
            self.look()
            time.sleep(PERIOD)

    def watch(self):
        with self.lock:
            self.most = self.count = 0
        self.on.set()

    def peak(self):
        self.on.clear()
        self.look()
        return self.most, self.count


def main():
    poll = Poll(reader(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    poll.look()
    poll.start()
    print("ready", flush=True)
    commands = {"now": lambda: [poll.read()], "watch": lambda: poll.watch() or [], "peak": poll.peak}
    for line in sys.stdin:
        print("ok", *commands[line.strip()](), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as why:  # no device
        print("error", " ".join(str(why).split()), flush=True)
        sys.exit(1)
