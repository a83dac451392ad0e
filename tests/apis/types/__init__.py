"""What the objects are: numbers, shapes, versions, defaults and rules. Who is admitted is tested elsewhere."""
