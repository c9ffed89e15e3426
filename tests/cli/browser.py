# SPDX-License-Identifier: BSD-3-Clause
# A page in headless Chromium, driven over the DevTools protocol by mouse and keys, as a user would; reads the
# page's state.
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE = 3600  # seconds; a hanging test ends


class Browser:
    """Close it by `with`. `errors` gets errors of the page's scripts, `requests` all requests except that of the page."""

    def __init__(self, program, width=1400, height=1000, dark=False):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        self.number, self.text, self.errors, self.requests = 0, b"", [], []

        def descriptors():  # Chromium reads 3 and writes 4
            reads, writes = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.child = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--force-color-profile=srgb", f"--user-data-dir={self.folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        pages = [one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self.session = self.ask("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.ask(domain + ".enable")
        self.resize(width, height)
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.folder.cleanup()

    def receive(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.text:
            if not select.select([self.into], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser is silent")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.text += more
        message, self.text = self.text.split(b"\0", 1)
        return json.loads(message)

    def event(self, name, about):
        if name == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif name == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(about["args"]))
        elif name == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:")):
            self.requests.append(about["request"]["url"])

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.event(answer["method"], answer["params"])

    def open(self, path):
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        while self.value("document.readyState") != "complete" or self.value("location.href") == "about:blank":
            time.sleep(0.01)
        self.drawn()

    def value(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def drawn(self):
        """Wait until the page has drawn its last change."""
        self.value("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(true))))")

    def text_of(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)})?.textContent ?? null")

    def resize(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    # --- user actions ---

    def box(self, selector):
        """The element's place in the window, after scrolling it into view."""
        return self.value(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center"}});
            const {{left, top, width, height}} = element.getBoundingClientRect();
            return {{left, top, width, height}};
        }})()""")

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, selector, across, down=0.5):
        """Move the pointer to a part of an element, 0 to 1 across and down."""
        box = self.box(selector)
        x, y = box["left"] + across * box["width"], box["top"] + down * box["height"]
        self.mouse("mouseMoved", x, y)
        self.drawn()
        return x, y

    def click(self, selector, across=0.5, down=0.5):
        x, y = self.move(selector, across, down)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.drawn()

    def drag(self, selector, begin, end):
        x, y = self.move(selector, begin)
        box = self.box(selector)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + (end - begin) * box["width"] * step / 5, y, button="left", buttons=1)
        self.mouse("mouseReleased", x + (end - begin) * box["width"], y, button="left", clickCount=1)
        self.drawn()

    def wheel(self, selector, across, by, control=False):
        x, y = self.move(selector, across)
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by, modifiers=2 if control else 0)
        self.drawn()

    def key(self, key, shift=False):
        names = {"/": "/", "+": "+", "-": "-", "0": "0"}
        text = {"text": names[key]} if key in names else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes.get(key, 0),
                     modifiers=8 if shift else 0, **(text if kind == "keyDown" else {}))
        self.drawn()

    def type(self, text):
        self.ask("Input.insertText", text=text)
        self.drawn()
