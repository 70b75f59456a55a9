"""Camera poses from photos: structure from motion with pycolmap, which runs in a process of its own."""

from .look import PhotoLook, look_at_photos
from .report import SFM_RECORDS, LeftOut, Points, SfmReport
from .solve import find_poses, with_poses

__all__ = ["SFM_RECORDS", "LeftOut", "PhotoLook", "Points", "SfmReport", "find_poses", "look_at_photos", "with_poses"]
