"""How controllers reach the API: one protocol, in-process or over HTTP."""
