"""One way to draw: `charts` describe figures, `vega` specifies them for page and files."""  # noqa: E501

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
