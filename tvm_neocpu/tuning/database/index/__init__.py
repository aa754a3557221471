"""Where the lines of a log are and what they are about, so that a build parses few of them."""
