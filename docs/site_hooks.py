"""Hook of the documentation site: links to files of the repository outside ``docs/`` become plain text.

On a code host such a link opens the file. The site does not hold these files, so it names them instead; a
link to a page that does not exist inside ``docs/`` stays a link and fails the strict build.
"""

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links that leave ``docs/`` by their text and the path from the top of the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return link[0]
        path = posixpath.normpath(posixpath.join("docs", folder, target.split("#")[0]))
        if path.startswith("docs/"):
            return link[0]
        return text if text.strip("`") in path else f"{text} (`{path}`)"

    return LINK.sub(replaced, markdown)
