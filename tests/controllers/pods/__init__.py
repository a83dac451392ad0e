"""Tests of the controller of pods and pod groups."""
