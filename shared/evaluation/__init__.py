"""Evaluation: scores, alarms, the table of results, and the training curve."""
