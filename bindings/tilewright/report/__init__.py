"""A report of a result for people: one page of HTML that holds all it needs.

`page` makes it of an instance and its result, `write` puts it into a file. What rooms have to tell they say
in an `Overview`; charts are Vega-Lite's, tables DataTables', both in ``vendor/`` with their licences.
"""

from tilewright.report.page import SUFFIX, check_path, page, write

__all__ = ["SUFFIX", "check_path", "page", "write"]
