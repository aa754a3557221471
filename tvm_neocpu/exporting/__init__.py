"""Compiled files, the side that makes them: `runtime/` reads what is written here."""
