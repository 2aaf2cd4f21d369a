"""The decision graph over traffic whose truth is known, beside peers on the same traffic."""
