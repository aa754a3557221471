"""How exact a result must be, and how exact it is."""
