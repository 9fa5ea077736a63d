"""The routes, a file for each noun. What each operation does is in `perdure.service`."""
