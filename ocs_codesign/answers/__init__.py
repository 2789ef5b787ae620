"""Answers: each result once as JSON and once as sections to read; faces only print them."""
