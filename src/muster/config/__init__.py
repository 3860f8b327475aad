"""Configuration: one TOML file, the environment over it, flags over that. Each value is checked as it enters.

schema   what can be set, with its defaults     settings_file   the file, with the line of every key
sources  file, environment, flags, in order     data_directory  the data directory and its files
tables   what an integration declares           values          checks of single values
"""

from muster.config.data_directory import Connection, DataDirectory, default_data_directory, find_server
from muster.config.schema import Config, ServerConfig
from muster.config.settings_file import ConfigError
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
