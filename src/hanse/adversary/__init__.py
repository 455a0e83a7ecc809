"""Those who lie: attacks on what clients and nodes send, for studies and tests."""
