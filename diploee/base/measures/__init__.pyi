from .series import QUANTA_PER_MW as QUANTA_PER_MW
from .series import Measure as Measure
from .series import Stretch as Stretch
from .series import to_mw as to_mw
from .series import to_quanta as to_quanta
