"""Where logs lie, and files of lines that several processes change."""
