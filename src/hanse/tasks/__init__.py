"""What is learnt: problems, their partition among clients, rewards, and sandboxed scoring."""
