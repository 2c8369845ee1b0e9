"""Serving: answers over HTTP and on a page."""
