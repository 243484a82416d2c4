"""Section "Agents": errors of steps by type, severity and place, and what a solved task costs."""
