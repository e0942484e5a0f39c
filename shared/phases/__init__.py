"""What ``phases:`` of a recipe may name, beside training (shared/training/fit.py)."""
