"""Backends: an fx graph in, a callable out. They use no frames and no guards."""
