"""The demo: real flights out of New York, and who of them should be in the air."""
