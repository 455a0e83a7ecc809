"""Only scalars travel back: the server trains, clients score its candidates (FedGRPO, 2602.12014)."""
