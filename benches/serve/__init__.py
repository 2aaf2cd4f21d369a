"""The engine's server under many clients and over long conversations; see `__main__`."""
