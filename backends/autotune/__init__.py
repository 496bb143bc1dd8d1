"""`autotune`: runs several backends on a graph with its real inputs, keeps the fastest whose
results are right, and remembers the choice on disk."""
