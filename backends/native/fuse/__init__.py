"""Optimisations of loop IR programs: fusion, split reductions, buffer reuse, simplification."""
