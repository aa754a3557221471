"""What people are told: warnings in one line, counts, what a build leaves to TVM."""
