"""What is configured, and what is there without configuration."""
