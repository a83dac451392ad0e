"""The guides that people follow, step by step, with the real kubectl and jobs that really run."""
