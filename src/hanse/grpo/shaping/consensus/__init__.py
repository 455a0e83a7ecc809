"""ConsensusPR (2609.04648): intermediate results that right solutions share, and rewards for them."""
