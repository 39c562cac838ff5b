from .folder import MANIFEST as MANIFEST
from .folder import METRICS_FILE as METRICS_FILE
from .parquet_files import FACILITY_FILE as FACILITY_FILE
from .parquet_files import JOBS_FILE as JOBS_FILE
from .reader import MetricValue as MetricValue
from .reader import RunFolder as RunFolder
from .series import RunSeries as RunSeries
from .series import SeriesBlock as SeriesBlock
