"""What peers of a swarm exchange, and what they believe of one another."""
