"""How a change is described and merged: JSON patch, merge patch, strategic merge, server-side apply. Pure."""
