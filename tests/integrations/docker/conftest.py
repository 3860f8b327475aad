from tests.integrations.docker.engines import alone, engine, lab, own_engine, shared

__all__ = ["alone", "engine", "lab", "own_engine", "shared"]
