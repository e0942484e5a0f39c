"""Layers of a model that is larger than its device: what stands where, and how it comes."""
