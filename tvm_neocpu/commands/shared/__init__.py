"""What several command lines need: options, networks, files, exit codes."""
