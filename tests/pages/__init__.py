"""The commands of README, docs/ and the help texts, run as they are written: see docs/develop/writing-docs.md."""
