"""Ways to get a kernel onto a board, one module each, chosen by `flash.method` of the env file."""
