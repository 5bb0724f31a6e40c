"""The exact search: all subgraphs that there can be, and shortest paths over what lies in which memory."""
