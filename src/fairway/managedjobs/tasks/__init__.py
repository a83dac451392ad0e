"""Task files: what people write (SkyPilot's YAML), read into `Task`s, with errors that name file, line and way out."""
