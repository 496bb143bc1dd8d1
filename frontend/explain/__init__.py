"""Reports: records of what happened (events.py) in; text, tables, JSON or HTML out."""
