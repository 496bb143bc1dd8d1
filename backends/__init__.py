"""fx graph in, callable out. Knows no frames and no guards."""
