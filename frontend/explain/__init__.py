"""Records of what happened (events.py) in, a report as text, tables, JSON or HTML out."""
