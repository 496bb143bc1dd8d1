"""Entries on disk: what one process has compiled serves the next one.

In: an entry and the objects of the program that it names. Out: a file, from which another process
makes an equal entry if everything that it names is found there with the same content.

    finding and storing     store, key
    files                   files, entry_writer, artifact_file
    an entry as bytes       entry_pickle, guard_table, live_code
    objects it names        object_descriptions, content, operators, process_groups, distributions,
                            wrapper_metadata
"""
