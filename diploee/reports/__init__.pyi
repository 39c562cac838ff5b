from .build import report as report
from .build import write_report as write_report
from .compare import Comparison as Comparison
from .datasheet import write_datasheet as write_datasheet
from .model_quality_page import write_model_quality as write_model_quality
