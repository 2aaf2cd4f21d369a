"""The engine beside its peers, on the same files with the same threads, in turn."""
