"""Evaluation, listings, printing and other means of looking at programs."""
