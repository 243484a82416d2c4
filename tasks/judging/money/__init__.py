"""Prices and the budget of a run.

prices  Price, Usage, find_price, cost_usd, worst_cost_usd: costs of requests
budget  Budget, BudgetRecord: reservations and settlements under a limit
"""
