"""Drawing of charts with Vega-Lite: descriptions, specifications, pages and images.

`charts` describes charts, `vega` converts them to specifications, `page` and `pictures`
write them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
