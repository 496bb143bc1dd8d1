"""The loop IR: what a kernel computes, independent of the language it is printed in."""
