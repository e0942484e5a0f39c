"""Models of other toolkits, read into model folders of this one; without those toolkits, and without running anything.

Names of published models may stand here, because files that others made are known by them.
"""
