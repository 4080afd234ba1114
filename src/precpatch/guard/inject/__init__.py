"""The folder that a guarded command finds first on its PYTHONPATH. Its code runs in the command's own processes."""
