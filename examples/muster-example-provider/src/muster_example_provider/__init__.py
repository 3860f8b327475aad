"""An example provider: machines are processes, each in a directory of its own."""
