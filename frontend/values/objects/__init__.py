"""Instances of classes, classes, modules, exceptions and enumeration members."""
