"""Objects and their history: the revision log on SQLite, its in-memory twin, watch, and the verbs over both."""
