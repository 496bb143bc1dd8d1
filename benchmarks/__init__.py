"""Benchmarks of framejit beside eager, torch.compile and others; run with `framejit bench`."""
