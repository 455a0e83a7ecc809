"""Reward shaping: what becomes of a group's rewards before they are compared."""
