"""Tests the chat page in Chromium: chat_page.py PROGRAM

A stub server serves the chat page and scripted outputs. The last checks use real servers. To draw the picture in docs:
    CHAT_PAGE_PICTURE=docs/chat_page.png python tests/clients/chat_page.py build/release/incipit
"""
import json
import os
import pathlib
import re
import sys

from support import FAKE_SERVER, chromium
from support.checks import Checks, contains, equal, wait_for
from support.stub import Pause, Stub, chat_event, usage_event

from harness import http1
from harness.process import ServerProcess

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
# JavaScript that makes HTML of a text. The page's Content-Security-Policy forbids this operation.
MAKE_HTML = """(() => { try { document.body.insertAdjacentHTML("beforeend", "<b id=made></b>"); }
                        catch (error) { return error.name; } return "made"; })()"""
# JavaScript that returns [name, contrast, smallest contrast] of each element with text, and of the border of each field.
# The smallest contrasts are those of WCAG 2.2: 4.5 for text, 3 for large text and for the border of a field.
CONTRASTS = """(() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => {
    const [r, g, b] = numbers(color).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => p - q); return (y + 0.05) / (x + 0.05); };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor, parts = numbers(color);
      if (parts.length < 4 || parts[3] === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element), name = element.id || element.className || element.localName;
    const hasText = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
    if (!element.checkVisibility() || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(element.tagName)) continue;
    if (hasText) found.push([name, ratio(style.color, behind(element)), parseFloat(style.fontSize) >= 24 ? 3 : 4.5]);
    if (["INPUT", "FORM"].includes(element.tagName) || element.id === "system") {
      found.push([name, ratio(style.borderTopColor, behind(element.parentElement)), 3]);
    }
  }
  return found;
})()"""
# Roles of the elements that must have a name.
NAMED = ("button", "textbox", "combobox", "spinbutton", "DisclosureTriangle")


class Page:
    """The chat page in a browser."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url
        self.open()

    def open(self):
        self.browser.open(self.url)
        self.browser.wait_for("document.querySelector('#model').length > 0 || !!document.querySelector('.error')")

    def send(self, text):
        self.browser.type(text)
        self.browser.press("Enter")

    def texts(self, selector):
        return self.browser.value(
            f"Array.from(document.querySelectorAll({json.dumps(selector)}), (element) => element.textContent)")

    def wait_for_text(self, selector, part, index=-1):
        """Waits until the text of an element contains `part`, and returns the text."""
        def found():
            texts = self.texts(selector)
            return texts[index] if len(texts) >= abs(index) and part in texts[index] else None
        return wait_for(found, f"{part!r} in {selector}")

    def wait_until_idle(self, num_outputs):
        """Waits until `num_outputs` outputs are complete."""
        wait_for(lambda: len(self.texts(".output")) == num_outputs and self.texts(".running") == [] and
                 self.browser.value("!document.querySelector('#send').hidden"), f"{num_outputs} complete outputs")

    def is_clean(self):
        """Fails if hostile text has become HTML, or if the page reports an error."""
        equal(self.browser.value("document.title"), "Incipit")
        equal(self.browser.value("document.querySelectorAll('img').length"), 0)
        equal(self.browser.value("document.querySelectorAll('script').length"), 1)
        equal(self.browser.messages, [])


def output_of(*deltas, usage=usage_event(40, 32, 7)):
    return [chat_event(role="assistant", content=""), *deltas, chat_event(content="", finish="stop"), usage]


def check_text(checks, browser, stub):
    with checks.check("model text, model names, reasoning and tool calls are text, not HTML"):
        stub.models = [HOSTILE, "second"]
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": HOSTILE, "arguments": ""}}
        rest = {"index": 0, "function": {"arguments": json.dumps({"city": HOSTILE})}}
        stub.script = output_of(chat_event(content=None, reasoning=HOSTILE, reasoning_content=HOSTILE),
                                chat_event(content="é🦊 " + HOSTILE), chat_event(tool_calls=[call]),
                                chat_event(tool_calls=[rest]))
        page = Page(browser, stub.url)
        equal(page.texts("#model option"), [HOSTILE, "second"])
        page.send(HOSTILE)
        page.wait_until_idle(1)
        equal(page.texts(".user .text"), [HOSTILE])
        equal(page.texts(".output > .text"), ["é🦊 " + HOSTILE])
        equal(page.texts(".reasoning .text"), [HOSTILE])
        equal(page.texts(".tool code"), [f"{HOSTILE}({json.dumps({'city': HOSTILE})})"])
        equal(stub.requests.get()[2]["model"], HOSTILE)
        page.is_clean()
    with checks.check("reasoning is folded"):
        equal(browser.value("document.querySelector('.reasoning').open"), False)
    with checks.check("the next request contains the output and the tool call, but not the reasoning"):
        page.send("next")
        page.wait_until_idle(2)
        user, assistant, last = stub.requests.get()[2]["messages"]
        equal((user["content"], last["content"]), (HOSTILE, "next"))
        equal(assistant["content"], "é🦊 " + HOSTILE)
        equal(assistant["tool_calls"][0]["function"]["name"], HOSTILE)
        equal(sorted(assistant), ["content", "role", "tool_calls"])
    with checks.check("an error is text, not HTML, and has its status and code"):
        stub.script = (400, {"error": {"message": HOSTILE, "code": HOSTILE, "param": None, "type": "x"}})
        page.send("again")
        page.wait_until_idle(2)
        equal(page.texts(".error .message"), [HOSTILE])
        equal(page.texts(".error .note"), [f"status 400, {HOSTILE}"])
        equal(browser.value("document.title"), "Incipit")
        equal(browser.value("document.querySelectorAll('img').length"), 0)
    with checks.check("an error in a stream is text, and the output before it stays"):
        stub.script = [chat_event(content="begun"), {"error": {"message": HOSTILE, "code": "internal"}}]
        page.send("once more")
        page.wait_for_text(".error .message", HOSTILE)
        page.wait_until_idle(3)
        equal(page.texts(".output > .text")[-1], "begun")
        equal(browser.value("document.querySelectorAll('img').length"), 0)
    with checks.check("the policy of the page forbids to make HTML of text"):
        equal(browser.value(MAKE_HTML), "TypeError")
        equal(browser.value("document.querySelector('#made')"), None)


def check_errors(checks, browser, stub):
    stub.models = ["one", "two"]
    page = Page(browser, stub.url)
    with checks.check("a message whose request failed can be sent again, and is sent once"):
        stub.script = (503, {"error": {"message": "the server is draining", "code": "draining"}})
        page.send("hello")
        page.wait_for_text(".error .message", "the server is draining")
        stub.script = output_of(chat_event(content="hi"))
        browser.value("document.querySelector('.error .retry').focus()")
        browser.press("Enter")
        page.wait_until_idle(1)
        equal(page.texts(".error"), [])
        equal(page.texts(".output > .text"), ["hi"])
        first, second = stub.requests.get()[2], stub.requests.get()[2]
        equal([message["content"] for message in second["messages"]], ["hello"])
        equal(first["messages"], second["messages"])
    with checks.check("a connection that ends early is an error"):
        stub.script = [chat_event(content="half"), "broken"]
        page.send("go on")
        page.wait_for_text(".error .message", "The connection ended before the output was complete.")
        page.wait_until_idle(2)
        stub.requests.get()
    with checks.check("the chosen model gets the request"):
        stub.script = output_of(chat_event(content="second"))
        browser.value("document.querySelector('#model').value = 'two'")
        browser.value("document.querySelector('#prompt').focus()")
        page.send("to the second")
        page.wait_until_idle(3)
        equal(stub.requests.get()[2]["model"], "two")
    with checks.check("an empty output and an output of maximum length are named"):
        stub.script = [chat_event(role="assistant", content=""), chat_event(content="", finish="stop")]
        page.send("be silent")
        page.wait_until_idle(4)
        contains(page.texts(".end"), "the output is empty")
        stub.script = [chat_event(content="cut"), chat_event(content="", finish="length"), usage_event(9, 0, 2)]
        page.send("be long")
        page.wait_until_idle(5)
        contains(page.texts(".end"), "ended at the maximum number of tokens")
        for _ in range(2):
            stub.requests.get()
    with checks.check("a new conversation forgets the messages"):
        browser.value("document.querySelector('#new').click()")
        equal(page.texts("article"), [])
        page.send("fresh")
        page.wait_until_idle(1)
        equal([message["content"] for message in stub.requests.get()[2]["messages"]], ["fresh"])


def check_key(checks, browser, stub):
    with checks.check("without an API key, the page asks for the key"):
        stub.models = (401, {"error": {"message": "the API key is missing", "code": None}})
        page = Page(browser, stub.url)
        contains(page.texts(".error .message"), "the API key is missing")
        equal(browser.value("document.activeElement.id"), "key")
        equal(browser.value("document.querySelector('#settings').open"), True)
    with checks.check("the API key goes into the Authorization field, and nowhere else"):
        stub.models = ["stub"]
        while not stub.gets.empty():
            stub.gets.get()
        browser.type("secret-key")
        browser.press("Tab")
        browser.wait_for("document.querySelector('#model').length == 1 && !document.querySelector('.error')")
        equal(stub.gets.get()[1]["Authorization"], "Bearer secret-key")
        stub.script = output_of(chat_event(content="ok"))
        browser.value("document.querySelector('#prompt').focus()")
        page.send("with the key")
        page.wait_until_idle(1)
        equal(stub.requests.get()[1]["Authorization"], "Bearer secret-key")
        equal(browser.value("[localStorage.length, sessionStorage.length, document.cookie, location.href]"),
              [0, 0, "", stub.url])
        page.open()
        equal(browser.value("document.querySelector('#key').value"), "")


def check_keyboard(checks, browser, stub):
    page = Page(browser, stub.url)
    with checks.check("the message field has the focus, and Shift+Enter begins a new line"):
        equal(browser.value("document.activeElement.id"), "prompt")
        browser.type("one")
        browser.press("Enter", shift=True)
        browser.type("two")
        equal(browser.value("document.querySelector('#prompt').value"), "one\ntwo")
        equal(page.texts("article"), [])
    with checks.check("Enter sends, and Esc stops: the request ends, the output so far stays"):
        pause = Pause()
        # The stub notices the end of the connection when it writes.
        stub.script = [chat_event(content="so far"), pause, *[chat_event(content="x" * 1000)] * 2000]
        stub.disconnected.clear()
        browser.press("Enter")
        page.wait_for_text(".output > .text", "so far")
        equal(stub.requests.get()[2]["messages"][0]["content"], "one\ntwo")
        equal(browser.value("[document.querySelector('#send').hidden, document.querySelector('#stop').hidden]"),
              [True, False])
        browser.press("Escape")
        page.wait_until_idle(1)
        pause.go_on()
        assert stub.disconnected.wait(60), "the connection is still open"
        equal(page.texts(".output > .text"), ["so far"])
        contains(page.texts(".end"), "stopped")
        equal(page.texts(".error"), [])
        equal(browser.value("document.activeElement.id"), "prompt")
    with checks.check("the button Stop stops by the keyboard, also before the first token"):
        pause = Pause()
        stub.script = [pause, *output_of(chat_event(content="late"))]
        page.send("wait")
        page.wait_for_text(".running h2", "Model")
        stub.requests.get()
        browser.press("Tab")
        equal(browser.value("document.activeElement.id"), "stop")
        browser.press("Enter")
        page.wait_until_idle(2)
        pause.go_on()
        equal(page.texts(".output > .text")[-1], "")
    with checks.check("Tab reaches every control, whose focus is visible"):
        seen = {}
        for _ in range(12):
            browser.press("Tab")
            name, visible = browser.value(
                "(() => { const one = document.activeElement, of = one.id === 'prompt' ? one.form : one;"
                "const style = getComputedStyle(of);"
                "return [one.id || one.textContent.trim(), style.outlineStyle !== 'none' || style.boxShadow !== 'none'] })()")
            seen[name] = visible
        for name in ("Skip to the message field", "model", "new", "Settings", "prompt", "send"):
            equal((name, seen.get(name)), (name, True))
    with checks.check("every control has a name for screen readers"):
        browser.value("document.querySelector('#settings').open = true")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        controls = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED]
        assert len(controls) >= 9, len(controls)
        equal([node for node in controls if not node["name"]["value"]], [])
        roles = {node["role"]["value"] for node in nodes if not node["ignored"]}
        assert {"log", "status", "main", "banner", "contentinfo"} <= roles, roles
    with checks.check("the status region announces an output when the output is complete"):
        browser.press("Escape")
        browser.value("document.querySelector('#prompt').focus()")
        stub.script = output_of(chat_event(content="the whole "), chat_event(content="output"))
        page.send("speak")
        page.wait_until_idle(3)
        equal(page.texts("#status"), ["the whole output"])
        stub.requests.get()
    with checks.check("a phone needs no horizontal scrolling, in light and dark"):
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.resize(360, 640, mobile=True)
            stub.script = output_of(chat_event(content="unbroken" * 100))
            page.open()
            page.send("long " * 3 + "word" * 60)
            page.wait_until_idle(1)
            stub.requests.get()
            assert browser.value("document.documentElement.scrollWidth") <= 360
        light, dark = "rgb(252, 251, 248)", "rgb(23, 22, 20)"
        equal(browser.value("getComputedStyle(document.body).backgroundColor"), dark)
        browser.prefer("light")
        equal(browser.value("getComputedStyle(document.body).backgroundColor"), light)
        browser.resize(1000, 720)
    with checks.check("text and fields have enough contrast, in light and dark"):
        browser.value("document.querySelector('#settings').open = true")
        stub.script = (400, {"error": {"message": "wrong", "code": "wrong"}})
        page.send("dimmed")
        page.wait_for_text(".error .message", "wrong")
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            equal([found for found in browser.value(CONTRASTS) if found[1] < found[2]], [])
        browser.prefer("light")
    with checks.check("the page sends requests only to its own server"):
        equal([url for url in browser.urls if not url.startswith((stub.url, "data:"))], [])


def check_real(checks, browser, server):
    page = Page(browser, f"http://127.0.0.1:{server.ports['http']}/")
    with checks.check("a real conversation streams, and shows cached tokens and the time to the first token"):
        equal(page.texts("#model option"), ["incipit-tiny"])
        page.send("Tell me a story about a fox and a red boat.")
        page.wait_until_idle(1)
        assert page.texts(".output > .text")[0], "no output"
        contains(page.wait_for_text(".cached", "cached"), "0 of ")
        page.send("And then?")
        page.wait_until_idle(2)
        cached, total = map(int, page.texts(".cached")[1].removesuffix(" prompt tokens cached").split(" of "))
        assert 16 <= cached < total, page.texts(".cached")
        equal(browser.value("Array.from(document.querySelectorAll('progress'), (bar) => [bar.value, bar.max])[1]"),
              [cached, total])
        equal(server.metric("incipit_tokens_total", kind="prompt_cached"), cached)
        for first, total in zip(page.texts(".first"), page.texts(".total"), strict=True):
            assert re.fullmatch(r"first token after \d+(\.\d\d)? m?s", first), first
            assert re.fullmatch(r"\d+ tokens in \d+(\.\d\d)? m?s", total), total
        page.is_clean()
    with checks.check("an error of a real server is shown"):
        browser.value("document.querySelector('#temperature').value = '1000'")
        page.send("too hot")
        page.wait_for_text(".error .note", "status 400, invalid_field")
        contains(page.texts(".error .message")[0], "temperature is 1000")


def check_completions(checks, browser):
    with checks.check("a model without a chat template continues the text of the conversation"), \
            ServerProcess("--chat-template", "none", http=True) as server:
        page = Page(browser, f"http://127.0.0.1:{server.ports['http']}/")
        browser.value("document.querySelector('#tokens').value = '20'")
        page.send("Once upon a time")
        page.wait_until_idle(1)
        contains(page.texts(".output .note"), "This model has no chat template. The model gets the plain text of the "
                 "conversation and continues the text.")
        page.send("The end came")
        page.wait_until_idle(2)
        equal(page.texts(".error"), [])
        assert all(page.texts(".output > .text")), page.texts(".output > .text")
        assert int(page.texts(".cached")[1].split()[0]) >= 16, page.texts(".cached")


def check_stop(checks, browser):
    with checks.check("Esc cancels the request in the server"), \
            ServerProcess("--step-time-ms", "20", "--max-model-len", "8192", program=FAKE_SERVER, http=True) as server:
        page = Page(browser, f"http://127.0.0.1:{server.ports['http']}/")
        page.send("go on for ever")
        wait_for(lambda: len(page.texts(".output > .text")) == 1 and len(page.texts(".output > .text")[0]) > 20, "text")
        equal(server.metric("incipit_requests_running"), 1)
        browser.press("Escape")
        wait_for(lambda: server.metric("incipit_requests_running") == 0, "idle")
        wait_for(lambda: server.metric("incipit_requests_total", outcome="cancelled") == 1, "cancelled")
        contains(page.texts(".end"), "stopped")


def draw_picture(browser, server, path):
    """Writes a picture with two views of a conversation: in a window, and on a phone in dark colours."""
    folder = pathlib.Path(path).parent
    parts = []
    for name, scheme, size in (("window", "light", (800, 560)), ("phone", "dark", (360, 560))):
        browser.prefer(scheme)
        browser.resize(*size, scale=1)
        page = Page(browser, f"http://127.0.0.1:{server.ports['http']}/")
        browser.value("document.querySelector('#temperature').value = '0'")
        for number, text in enumerate(("Tell me a story about a cat.", "Tell me a story about a boat."), 1):
            page.send(text)
            page.wait_until_idle(number)
        browser.screenshot(folder / f".{name}.png")
        parts.append((folder / f".{name}.png").resolve())
    page = "".join(f"<img src='file://{part}' style='border:1px solid #ccc;border-radius:12px;margin:6px'>" for part in parts)
    joined = folder / ".joined.html"
    joined.write_text(f"<body style='margin:0;display:flex;background:#fff'>{page}")
    browser.resize(800 + 360 + 28, 560 + 14)
    browser.open(f"file://{joined.resolve()}")
    browser.screenshot(path)
    for file in (joined, *parts):
        file.unlink()


def main():
    checks = Checks()
    program = chromium.find_chromium()
    if not program:
        checks.skip("chat page in Chromium", "the program chromium is not installed")
        return checks.end()
    with ServerProcess(http=True) as server, chromium.Browser(program) as browser:
        browser.resize(1000, 720)
        picture = os.environ.get("CHAT_PAGE_PICTURE")
        if picture:
            draw_picture(browser, server, picture)
            return 0
        with Stub(http1.call(server.ports["http"], "GET", "/")) as stub:
            check_text(checks, browser, stub)
        for part in (check_errors, check_key, check_keyboard):
            with Stub(http1.call(server.ports["http"], "GET", "/")) as stub:
                part(checks, browser, stub)
        check_real(checks, browser, server)
        check_completions(checks, browser)
        check_stop(checks, browser)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
