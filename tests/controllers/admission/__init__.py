"""Tests of the controller around the engine."""
