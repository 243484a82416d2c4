"""Examples side by side, with their evidence marked."""
