"""What outlives the process: files written atomically, without pickle."""
