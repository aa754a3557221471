"""An explanation of the global search for people: a table, a page, JSON."""
