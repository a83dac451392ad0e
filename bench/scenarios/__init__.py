"""Performance scenarios of the Kueue project against ``fairway serve``, with Kueue's own client-go runner (main.go)."""
