"""Public Python functions of `diploee`, as on its command line.

`sites` loads scenarios, `running` simulates them, `finished` evaluates runs, and
`measured` reads logs and measured power.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
