"""Helpers of every end-to-end suite: a server process, its clients, and its metrics and logs."""
