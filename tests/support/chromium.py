"""A page in headless Chromium: a browser of this system, else the one that QtWebEngine carries
(``pip install tvm-neocpu[browser]``; NEOCPU_BROWSER_PYTHON names another Python that has it).
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "NEOCPU_BROWSER_PYTHON"

_SHOW = """
import json, sys
from PyQt6.QtCore import QTimer, QUrl
from PyQt6.QtWebEngineCore import QWebEnginePage
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication

path, script = sys.argv[1:]
errors = []

class Page(QWebEnginePage):
    def javaScriptConsoleMessage(self, level, message, line, source):
        errors.append(f"line {line}: {message}")

app = QApplication(sys.argv[:1])
view = QWebEngineView()
page = Page(view)
view.setPage(page)
view.resize(1300, 900)
view.show()

def finished(found):
    print(json.dumps({"errors": errors, **(found or {})}))
    app.quit()

page.loadFinished.connect(lambda ok: page.runJavaScript(script, finished))
view.load(QUrl.fromLocalFile(path))
QTimer.singleShot(60000, app.quit)
app.exec()
"""

_LOOK = """
(() => {
  const size = (chosen) => {
    const box = document.querySelector(chosen)?.getBoundingClientRect();
    return box ? [box.width, box.height] : [0, 0];
  };
  const wanted = Object.entries(%s);
  const boxes = Object.fromEntries(wanted.map(([name, chosen]) => [name, size(chosen)]));
  const colour = () => {
    const node = document.querySelector("#graph [data-node] rect");
    return node ? getComputedStyle(node).fill : "";
  };
  const before = colour();
  document.querySelector(%s)?.click();
  return {boxes, "colour before": before, "colour after": colour()};
})()
"""


# What a browser is called; it needs no driver, because the page itself looks and writes down.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900", "--dump-dom")
_NOTE = """<script>
window.seenErrors = [];
const note = (event) => seenErrors.push(`line ${event.lineno}: ${event.message}`);
window.addEventListener("error", note);
console.error = (...words) => seenErrors.push(words.join(" "));
</script>"""
_WRITE = """<pre id="seen"></pre><script>
window.addEventListener("load", () => {
  const found = %s;
  document.querySelector("#seen").textContent = JSON.stringify({errors: seenErrors, ...found});
});
</script>"""


def _has_web_engine() -> bool:
    """PyQt6 comes without Chromium, too."""
    return find_spec("PyQt6") is not None and find_spec("PyQt6.QtWebEngineWidgets") is not None


def seen_in_chromium(path: Path, boxes: Mapping[str, str], click: str) -> dict[str, Any]:
    """Width and height of the first element of each selector, all messages of the console, and the
    colour of a node before and after a click. Skips the test where there is no Chromium.
    """
    look = _LOOK % (json.dumps(dict(boxes)), json.dumps(click))
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is not None:
        return _seen_by(browser, path, look)
    python = os.environ.get(VARIABLE) or sys.executable
    if python == sys.executable and not _has_web_engine():
        pytest.skip(f"no Chromium: pip install PyQt6-WebEngine, or set {VARIABLE}")
    done = subprocess.run(
        [python, "-c", _SHOW, str(path), look],
        capture_output=True,
        text=True,
        timeout=90,
        env={
            **os.environ,
            "QT_QPA_PLATFORM": "offscreen",
            "QTWEBENGINE_DISABLE_SANDBOX": "1",
            "QTWEBENGINE_CHROMIUM_FLAGS": "--disable-gpu",
        },
    )
    assert done.returncode == 0 and done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _seen_by(browser: str, path: Path, look: str) -> dict[str, Any]:
    """The same by a browser, of a copy of the page that looks at itself."""
    watched = path.with_name(f"watched_{path.name}")
    page = path.read_text(encoding="utf-8").replace("<head>", f"<head>{_NOTE}", 1)
    watched.write_text(page + _WRITE % look.strip().removesuffix(";"), encoding="utf-8")
    done = subprocess.run(
        [browser, *_FLAGS, f"--user-data-dir={path.parent / 'browser'}", watched.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
    )
    written = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
    assert done.returncode == 0 and written, done.stderr
    found: dict[str, Any] = json.loads(html.unescape(written.group(1)))
    return found
