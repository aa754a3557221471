"""Commands inside of commands: one file each, named by the command that calls it."""
