from .blocks import PowerBlock as PowerBlock
from .extreme_windows import EventWindow as EventWindow
from .segments import Segments as Segments
