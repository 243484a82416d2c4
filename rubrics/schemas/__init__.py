"""JSON Schema on hostile text: nothing is fetched, no pattern backtracks, and no validation goes on without end."""
