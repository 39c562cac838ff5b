from .streaming import QUANTA_PER_MW as QUANTA_PER_MW
from .streaming import Chunk as Chunk
from .streaming import Measure as Measure
from .streaming import to_mw as to_mw
from .streaming import to_quanta as to_quanta
