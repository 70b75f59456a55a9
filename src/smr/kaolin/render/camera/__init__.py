"""`kaolin.render.camera`: cameras as Kaolin has them; `PinholeCamera` and `FisheyeCamera` as tutorials write them."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "camera": ("Camera", "allclose"),
        "coordinates": ("blender_coords", "opengl_coords"),
        "extrinsics": ("CameraExtrinsics", "ExtrinsicsParamsDefEnum", "ExtrinsicsRep", "register_backend"),
        "gsplats_inria": (
            "gsplat_inria_camera_to_kaolin",
            "gsplats_camera_to_kaolin",
            "kaolin_camera_to_gsplat_inria",
            "kaolin_camera_to_gsplats",
        ),
        "gsplats_nerfstudio": ("gsplat_nerfstudio_camera_to_kaolin", "kaolin_camera_to_gsplat_nerfstudio"),
        "intrinsics": ("CameraFOV", "CameraIntrinsics", "down_from_homogeneous", "up_to_homogeneous"),
        "intrinsics_ortho": ("OrthoParamsDefEnum", "OrthographicIntrinsics"),
        "intrinsics_pinhole": ("PinholeIntrinsics", "PinholeParamsDefEnum"),
        "legacy": (
            "generate_perspective_projection",
            "generate_rotate_translate_matrices",
            "generate_transformation_matrix",
            "perspective_camera",
            "rotate_translate_points",
        ),
        "lens_cameras": ("FisheyeCamera", "PinholeCamera"),
        "polyscope": ("kaolin_camera_to_polyscope", "polyscope_camera_to_kaolin"),
        "raygen": (
            "generate_centered_custom_resolution_pixel_coords",
            "generate_centered_pixel_coords",
            "generate_default_grid",
            "generate_ortho_rays",
            "generate_pinhole_rays",
            "generate_rays",
        ),
        "trajectory": ("camera_path_generator", "loop_camera_path_generator"),
    },
)
