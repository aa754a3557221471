"""The layers of random networks by kind; :mod:`random_layers` has the table of all."""
