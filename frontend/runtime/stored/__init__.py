"""Entries on disk: what one process has compiled serves the next one.

In: an entry and the objects of the program that it names. Out: a file, from which another process
makes an equal entry if everything that it names is found there with the same content.
"""
