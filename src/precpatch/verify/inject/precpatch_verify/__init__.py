"""The part of ``precpatch verify`` that runs in the environment of verl: Python 3.8 or later and its standard library.

``python start_verify.py REQUEST RESULTS CRASH`` does the jobs of REQUEST (a file of JSON) one after the other and
appends rows of JSON to RESULTS: one when a job starts, one when it has ended. What Python says of a crash or of a job
that took too long is in CRASH. What the imported modules print goes elsewhere.
"""
