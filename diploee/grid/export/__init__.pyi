from .base import ExportRequest as ExportRequest
from .base import Format as Format
from .base import Options as Options
from .base import WrittenFiles as WrittenFiles
from .registry import FORMATS as FORMATS
from .registry import export_run as export_run
