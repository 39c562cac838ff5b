from .pictures import Picture as Picture
