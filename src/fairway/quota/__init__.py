"""A quota definition rendered into objects of Kueue, YuniKorn and Kubernetes, compared with them, and made from them.

Pure: `apis.fairway.quotas` reads a definition, `fairway quota` and `controllers.quota` read and write the objects.
"""
