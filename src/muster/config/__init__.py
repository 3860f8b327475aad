"""Configuration: one TOML file, the environment over it, flags over that. Each value is checked as it enters.

schema     what can be set, with its defaults     reading   the file, with the line of every key
sources    file, environment, flags, in order     data      the data directory and what lies in it
tables     what an integration declares           values    checks of single values
"""

from muster.config.data import Connection, DataDirectory, default_data_directory, find_server
from muster.config.reading import ConfigError
from muster.config.schema import Config, ServerConfig
from muster.config.sources import load

__all__ = [
    "Config",
    "ConfigError",
    "Connection",
    "DataDirectory",
    "ServerConfig",
    "default_data_directory",
    "find_server",
    "load",
]
