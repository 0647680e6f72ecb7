"""Experiments: plans of trainings, and the tables they give."""
