"""What leaving work out saves and costs; `__main__.py` says how to run it, `parts.py` how to add a part."""
