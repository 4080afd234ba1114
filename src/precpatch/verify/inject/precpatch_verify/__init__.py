"""The part of ``precpatch verify`` that runs in the environment of verl: Python 3.8 or later and its standard library.

``python -m precpatch_verify REQUEST RESULTS CRASH`` does the jobs of REQUEST (a file of JSON) one after the other and
appends rows of JSON to RESULTS: one when a job starts, one when it has ended. What Python says of a crash or of a job
that took too long is in CRASH. Nothing that the imported modules print can reach these files.
"""
