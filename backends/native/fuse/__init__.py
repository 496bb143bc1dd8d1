"""Programs of the loop IR to better ones."""
