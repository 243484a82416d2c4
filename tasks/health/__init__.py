"""What can be wrong with a lake and the machine it is used on: one module for each kind of thing."""
