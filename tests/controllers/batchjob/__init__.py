"""Tests of the job controller."""
