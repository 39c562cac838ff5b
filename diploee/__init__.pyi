from .api import Run as Run
from .api import datasheet as datasheet
from .api import export as export
from .api import fit as fit
from .api import generate_jobs as generate_jobs
from .api import import_profile as import_profile
from .api import limits as limits
from .api import open_run as open_run
from .api import run as run
from .api import scenarios as scenarios
from .api import simulate as simulate
from .base.errors import DiploeeError as DiploeeError
from .base.errors import InputError as InputError
from .profiles.library import ProfileLibrary as ProfileLibrary
from .profiles.profile import PowerProfile as PowerProfile
from .reports.build import report as report
from .reports.compare import compare as compare
from .scenario.loading import load_scenario as load_scenario
from .scenario.models import Scenario as Scenario
from .simulation.steps import job_segments as job_segments
from .simulation.steps import power_blocks as power_blocks
from .simulation.steps import power_series as power_series
from .simulation.steps import schedule_jobs as schedule_jobs
from .sweeps.execute import ensemble as ensemble
from .sweeps.execute import sweep as sweep
from .sweeps.firm import firm as firm

__version__: str
