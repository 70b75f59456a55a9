"""The facts of a machine, gathered from outside: metadata, ELF files, other programs with a time limit."""
