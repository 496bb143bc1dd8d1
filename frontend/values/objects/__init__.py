"""Values of instances, classes, modules, exceptions and enumeration members."""
