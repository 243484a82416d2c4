"""Scores by model, and the weights behind them."""
