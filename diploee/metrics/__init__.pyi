from .catalogue import MEASURES as MEASURES
from .catalogue import RunMeasure as RunMeasure
from .catalogue import declared_metrics as declared_metrics
from .catalogue import metrics_of_runs as metrics_of_runs
