from tests.integrations.docker.engines import alone, engine, own_engine, shared, yard

__all__ = ["alone", "engine", "own_engine", "shared", "yard"]
