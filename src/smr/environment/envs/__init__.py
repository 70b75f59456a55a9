"""Version-locked environments for packages that are compiled against torch: planned, built, checked, packed, restored.

Standard library alone. What is known of packages is data (`cookbook`, and the doctor's tables); the programs that do
the work (pip, git, the compiler) run in other processes with argument lists, never through a shell.
"""
