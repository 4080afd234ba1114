"""What runs in the user's environment: put on PYTHONPATH, never imported by precpatch itself."""
