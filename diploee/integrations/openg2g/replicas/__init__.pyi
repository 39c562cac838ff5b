from .control import Constraint as Constraint
from .control import ControlSetting as ControlSetting
from .control import ControlView as ControlView
from .control import ModelSetting as ModelSetting
from .control import Observed as Observed
