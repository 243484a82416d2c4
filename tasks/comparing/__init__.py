"""Two sides of outputs, case by case: who stands beside whom, and what their scores say."""
