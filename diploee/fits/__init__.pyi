from .calendar import FitChoices as FitChoices
from .jobs.arrivals import ArrivalFit as ArrivalFit
from .jobs.arrivals import JobFitOptions as JobFitOptions
from .jobs.class_fits import ClassFit as ClassFit
from .jobs.job_log_fit import JobLogFit as JobLogFit
from .jobs.job_log_fit import fit_job_log as fit_job_log
from .requests.fit import fit_requests as fit_requests
