from .series import QUANTA_PER_MW as QUANTA_PER_MW
from .series import Chunk as Chunk
from .series import Measure as Measure
from .series import to_mw as to_mw
from .series import to_quanta as to_quanta
