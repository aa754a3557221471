"""What belongs to the process or the machine: threads, forks, memory and places of files."""
