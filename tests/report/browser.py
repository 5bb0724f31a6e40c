"""Reports in a real browser: Chromium without a window, driven by selenium.

``python tests/report/browser.py PAGE IMAGE`` takes the picture of a page for the documentation.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTH = 1360
"""Pixels of the window."""

READY = "return document.querySelectorAll('.chart').length === document.querySelectorAll('.chart svg').length"


def missing() -> str | None:
    """Say what there is not of all that is needed; None where all is there."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "Chromium and its driver are not installed: apt-get install chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install -e '.[test]'"
    return None


class Browser:
    """A browser that keeps what pages say on the console and what they ask a network for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, scheme: str = "light") -> None:
        """Open a page as it looks in light or dark, and wait until its charts are drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get(page.as_uri())
        WebDriverWait(self.driver, 30).until(lambda driver: driver.execute_script(READY))

    def run(self, script: str) -> Any:
        """Return what JavaScript returns."""
        return self.driver.execute_script(script)

    def console(self) -> list[str]:
        """Return what was said on the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        entries = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            entry["params"]["request"]["url"]
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, height: int | None = None) -> bytes:
        """Return a PNG of the page from its top, by default all of it."""
        height = height or self.run("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        shot = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        return base64.b64decode(shot["data"])

    def printed(self) -> bytes:
        """Return the page as a PDF."""
        asked = {"preferCSSPageSize": True, "printBackground": True}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", asked)["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        f"window-size={WIDTH},900",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


if __name__ == "__main__":
    page, image = map(Path, sys.argv[1:])
    with browser() as opened:
        opened.open(page.resolve())
        image.write_bytes(opened.picture())
