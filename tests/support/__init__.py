"""What the tests of several folders share: a scripted upstream, a graph without a store, raw connections."""
