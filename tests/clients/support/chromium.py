"""Drives Chromium without a window, by the Chrome DevTools Protocol over two pipes."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 60  # time limit of each command
# Keys that are not characters, with their codes.
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}


def find_chromium():
    """Returns the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A Chromium process with one page. A context manager that ends the process at the end."""

    def __init__(self, program):
        self._folder = tempfile.TemporaryDirectory()
        self.messages = []  # warnings and errors of the page, and the lines that its script wrote to the console
        self.urls = []  # addresses that the page has requested
        self._buffer, self._id, self._session = b"", 0, None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place_pipes():
            # Chromium reads commands from descriptor 3 and writes to descriptor 4.
            reader, writer = os.dup(to_read), os.dup(to_write)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        # Root may not use Chromium's sandbox. The pages of these tests are the project's own.
        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                 "--hide-scrollbars", f"--user-data-dir={self._folder.name}", "about:blank"]
        # The environment of a container often has no home folder.
        environment = dict(os.environ, HOME=self._folder.name)
        self._log = open(pathlib.Path(self._folder.name) / "log", "wb")
        self._process = subprocess.Popen([program, *flags], stdin=subprocess.DEVNULL, stdout=self._log,
                                         stderr=self._log, env=environment, close_fds=False,
                                         start_new_session=True, preexec_fn=place_pipes)
        os.close(to_read)
        os.close(to_write)

    def __enter__(self):
        try:
            self._attach()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            os.close(self._write)  # Chromium ends with its pipe.
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._log.close()
        shutil.rmtree(self._folder.name, ignore_errors=True)

    def _attach(self):
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def _receive(self, end):
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise AssertionError(f"Chromium sent nothing for {SECONDS} s")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise AssertionError("Chromium ended")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        """Sends a command and returns its result."""
        self._id += 1
        command = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while (message := self._receive(end)).get("id") != self._id:
            self._note(message)
        assert "error" not in message, f"{method}: {message['error']}"
        return message["result"]

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["level"] != "verbose":
                self.messages.append(f"{entry['text']} {entry.get('url', '')}".strip())
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(value.get("value")) for value in parameters["args"]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.urls.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))

    def open(self, url):
        self.messages, self.urls = [], []
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression):
        """Returns the value of a JavaScript expression in the page. The value must be JSON."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait_for(self, expression, seconds=SECONDS):
        """Waits until the JavaScript expression is true in the page, and returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"after {seconds} s: not {expression}"
            time.sleep(0.02)
        return value

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        event = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        if key == "Enter":
            event["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in event.items() if k != "text"})

    def resize(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=mobile)

    def prefer(self, color_scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": color_scheme}])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
