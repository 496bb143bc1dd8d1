"""Benchmarks of framejit beside eager and torch.compile; run with `python -m benchmarks`. Not installed."""
