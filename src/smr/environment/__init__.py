"""Is this machine able to build, load and run compiled CUDA, torch and 3D packages; what is wrong; what cures it.

Imports the standard library alone, runs on Python 3.8 and newer, and imports nothing of what it examines, so that it
works where everything else is broken. Facts (`gather`) and judgements (`rules`) are apart: facts taken on one machine
give the same findings on any other.
"""
