"""The reconciler of job kinds, on a real store in virtual time."""
