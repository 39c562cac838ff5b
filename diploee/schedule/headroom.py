"""`Headroom`: the power that is left under a cap, of `power_capped` as of the controller."""


class Headroom:
    """Power left between a limit and what is drawn, which starts and caps take from [W].

    It is negative as long as more is drawn than the limit allows.
    """

    def __init__(self, allowed_w: float, drawn_w: float) -> None:
        self.left_w = allowed_w - drawn_w

    def holds(self, more_w: float) -> bool:
        """Return whether as much more may be drawn."""
        return more_w <= self.left_w

    def take(self, more_w: float) -> None:
        """Count what is drawn more; negative where it is less."""
        self.left_w -= more_w
