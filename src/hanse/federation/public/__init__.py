"""Public steps: clients show one another correct answers to problems that belong to nobody (PubSwap)."""
