"""Builders and replays for tests, public so that others can test what they build on Fairway."""
