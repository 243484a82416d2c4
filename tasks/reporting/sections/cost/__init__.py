"""Cost by stage and criterion, with a forecast."""
