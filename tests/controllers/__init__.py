"""Controllers, each on a real store and virtual time."""
