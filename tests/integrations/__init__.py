"""Job kinds, as pure tables."""
